"""Runs that are timed: layers with an auxiliary layer behind them, auxiliary layers alone, the whole network.

An auxiliary layer makes the output small that is fetched from the device.
Source: docs/sources/companions.md 4.

Every measured time is on the disk before the next one is taken, in a file of JSON lines: what is measured on
which device, then the times, a few executions of one run a line.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple

import numpy as np
from pydantic import Field, TypeAdapter

from rramalloc.choices import AuxiliaryLayer, OverheadMethod
from rramalloc.errors import RramallocError, SpecError, suggestion
from rramalloc.files import Closing, file_errors, open_alone, open_to_read, parse_json, sync_folder
from rramalloc.hardware.tables import MAX_VALUE
from rramalloc.network.geometry import Shape
from rramalloc.network.network import Network
from rramalloc.network.node import Input, Node
from rramalloc.records import Record, brief, check_format, parse
from rramalloc.timing.measured_layer import MeasuredLayer, timed_nodes

_CERTAIN = 1.959964  # standard deviations of a normal distribution within which 95 % lie
_MAD_TO_STD = 1.482602  # standard deviation of a normal distribution over its median absolute deviation
_MEDIAN_TO_MEAN = 1.253314  # sqrt(pi / 2): standard error of its median over that of its mean
_FEW = 8  # times; below, the interval of the median follows the normal distribution


class TimeSummary(NamedTuple):
    """n times in ns: their median, spread (1.4826 * median absolute deviation) and a confidence interval.

    low_ns, high_ns: 95 % confidence interval of the median, from order statistics, whatever the distribution.
    """

    n: int
    median_ns: float
    spread_ns: float
    low_ns: float
    high_ns: float

    @classmethod
    def of(cls, times_ns: Sequence[float]) -> TimeSummary:
        """Return the summary of these times. Raises ValueError without any."""
        if not times_ns:
            raise ValueError("there are no times")
        times = np.sort(np.asarray(times_ns, dtype=np.float64))
        n = len(times_ns)
        median_ns = float(np.median(times))
        spread_ns = _MAD_TO_STD * float(np.median(np.abs(times - median_ns)))
        if n < _FEW:
            half_ns = _CERTAIN * _MEDIAN_TO_MEAN * spread_ns / math.sqrt(n)
            return cls(n, median_ns, spread_ns, median_ns - half_ns, median_ns + half_ns)
        below = math.floor((n - _CERTAIN * math.sqrt(n)) / 2)
        low_ns = float(times[max(below - 1, 0)])
        high_ns = float(times[min(n - below, n - 1)])
        return cls(n, median_ns, spread_ns, low_ns, high_ns)

    @property
    def error_ns(self) -> float:
        """Standard error of the median."""
        return (self.high_ns - self.low_ns) / (2 * _CERTAIN)

    @property
    def width(self) -> float:
        """Width of the confidence interval relative to the median; infinite for fewer than 8 times."""
        if self.n < _FEW:
            return math.inf
        return (self.high_ns - self.low_ns) / self.median_ns if self.median_ns > 0 else 0.0


FORMAT: Literal["rramalloc-latency-samples/1"] = "rramalloc-latency-samples/1"
_HEADER_BYTES = 2**26  # of the first line, which lists all runs of a plan
_LINE_BYTES = 2**20  # of any other line, which has the times of a few executions
Time = Annotated[float, Field(ge=0, le=MAX_VALUE)]


class Header(Record):
    """The first line of the file. method: how the device's overhead is best taken off."""

    format: Literal["rramalloc-latency-samples/1"] = FORMAT
    device: str
    method: OverheadMethod
    plan: MeasurePlan


class _SampleLine(Record):
    """Times of executions of one run, in ns; run: its place in the plan."""

    run: Annotated[int, Field(ge=0)]
    times_ns: list[Time]


_HEADERS: TypeAdapter[Header] = TypeAdapter(Header)
_LINES: TypeAdapter[_SampleLine] = TypeAdapter(_SampleLine)


class SampleFile(Closing):
    """The samples of one plan on one device, held for writing by one process at a time; used as a context.

    times: those of each run of the plan, in ns. A last line that was cut off when its writer was killed is
    dropped. Raises FileError; SpecError if the file holds something else.
    """

    def __init__(self, path: str | os.PathLike[str], header: Header) -> None:
        self._shown = os.fspath(path)
        self._stream = open_alone(path)
        try:
            with file_errors(self._shown):
                sync_folder(Path(path).resolve().parent)
                self._adopt(header)
        except BaseException:
            self._stream.close()
            raise

    def close(self) -> None:
        """Let other processes write."""
        with file_errors(self._shown):
            self._stream.close()

    def append(self, run: int, times_ns: list[float]) -> None:
        """Keep times of a run; they survive a crash of the machine once this returns."""
        with file_errors(self._shown):
            self._stream.write(_line({"run": run, "times_ns": times_ns}))
            self._commit()
        self.times[run].extend(times_ns)

    def _adopt(self, header: Header) -> None:
        first = _line(header.model_dump(mode="json"))
        self._stream.seek(0)
        head = self._stream.read(len(first))
        if not first.startswith(head):
            words = "holds samples of another network, device or auxiliary layer, or something else"
            raise SpecError(self._shown, f"{words}: name another file")
        if head != first:
            self._stream.truncate(0)
            self._stream.write(first)
        self.times, end = _times(self._stream, self._shown, header)
        self._stream.truncate(end)
        self._commit()

    def _commit(self) -> None:
        """Flush everything to the disk."""
        self._stream.flush()
        os.fsync(self._stream.fileno())


def read_samples(path: str | os.PathLike[str]) -> tuple[Header, list[list[float]]]:
    """Read the header and the times of a samples file, as far as it was written. Raises FileError,
    SpecError."""
    where = os.fspath(path)
    text = ""
    with open_to_read(path) as stream:
        first = stream.readline(_HEADER_BYTES)
        with contextlib.suppress(UnicodeDecodeError):
            text = first.decode()
        document = parse_json(text, where) if text.endswith("\n") else None
        check_format(document, FORMAT, where, " in the first line")
        header = parse(_HEADERS, document, where)
        return header, _times(stream, where, header)[0]


def _times(stream: BinaryIO, where: str, header: Header) -> tuple[list[list[float]], int]:
    """Read the times of each run behind the first line, and where they end; a killed writer leaves more."""
    times: list[list[float]] = [[] for _ in header.plan.runs]
    end = stream.tell()
    while line := stream.readline(_LINE_BYTES):
        sample = _parsed(line, where)
        if sample is None or sample.run >= len(times):
            if stream.readline(1):
                raise SpecError(where, f"byte {end}: is no line of samples; the file is damaged")
            break
        times[sample.run].extend(sample.times_ns)
        end += len(line)
    return times, end


def _parsed(line: bytes, where: str) -> _SampleLine | None:
    try:
        return parse(_LINES, json.loads(line), where) if line.endswith(b"\n") else None
    except (ValueError, RramallocError, RecursionError):
        return None


def _line(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


VALUE_BYTES = 4  # inputs and outputs are counted as 32-bit values
_SIZES = 6  # auxiliary layers alone of each kind, 3 unknowns to be fitted
_LEAST_BYTES = 2**22  # of the largest of them
_MOST_BYTES = 2**26  # of the largest of them
_CHANNELS = 16  # of an average pooling alone


class TimedRun(Record):
    """Model that is timed in one run: layer, then auxiliary layer, either of which may be missing."""

    kind: Literal["layer", "auxiliary", "network"]
    layer: MeasuredLayer | None = None
    auxiliary: MeasuredLayer | None = None
    input_bytes: int
    output_bytes: int

    @cached_property
    def text(self) -> str:
        """The run in one line: "layer conv 3x8x8 ... | avgpool 16x8x8 ..."."""
        parts = (part.text for part in (self.layer, self.auxiliary) if part is not None)
        return f"{self.kind} {' | '.join(parts)}"


class MeasurePlan(Record):
    """All runs that the latencies of a network's layers need.

    auxiliary: the kinds of auxiliary layers, with commas between them; name, sha256: of the network.
    """

    name: str
    sha256: str
    auxiliary: str
    runs: tuple[TimedRun, ...]

    @classmethod
    def of(
        cls,
        network: Network,
        auxiliary: AuxiliaryLayer | Sequence[AuxiliaryLayer],
        only: Collection[str] = (),
    ) -> MeasurePlan:
        """Return a plan with each distinct layer once with every kind of auxiliary layer, which is timed
        alone as well.

        only: names of the layers to time, all of them and the whole network if there are none.
        Raises SpecError for a name that no timed layer has.
        """
        kinds: Sequence[AuxiliaryLayer] = (auxiliary,) if isinstance(auxiliary, str) else tuple(auxiliary)
        nodes = [node for node in timed_nodes(network) if not only or node.name in only]
        for name in only:
            if name not in {node.name for node in nodes}:
                known = [node.name for node in timed_nodes(network)]
                reason = f"{brief(name)} is no layer that is timed; {suggestion(name, known) or known[:8]}"
                raise SpecError("layer", reason)
        layers: dict[str, MeasuredLayer] = {}
        for node in nodes:
            layer = MeasuredLayer.of(network, node)
            layers.setdefault(layer.text, layer)
        largest = max((_bytes(layer.shapes) for layer in layers.values()), default=0)
        runs = []
        for kind in kinds:
            alone = [behind(kind, layer.output) for layer in layers.values()]
            runs += [layer_run(layer, kind) for layer in layers.values()]
            runs += [auxiliary_run(layer) for layer in (*alone, *calibration(kind, largest))]
        by_text = {run.text: run for run in (*runs, *(() if only else (network_run(network),)))}
        named = ",".join(kinds)
        return cls(name=network.name, sha256=network.sha256, auxiliary=named, runs=tuple(by_text.values()))

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `latency plan --format json` prints."""
        return self.model_dump(mode="json")

    def without(self, texts: Iterable[str]) -> MeasurePlan:
        """Return the plan without some of its runs."""
        left_out = set(texts)
        return self.model_copy(update={"runs": tuple(r for r in self.runs if r.text not in left_out)})


def behind(auxiliary: AuxiliaryLayer, shape: Shape) -> MeasuredLayer:
    """Return the auxiliary layer for an output: a mean over the grid, or a convolution to one channel."""
    if auxiliary == "avgpool":
        grid = [shape.height, shape.width]
        return _layer("avgpool", shape, {"kernel": grid, "stride": grid})
    return _convolution(auxiliary, shape, 1)


def calibration(auxiliary: AuxiliaryLayer, largest_bytes: int) -> list[MeasuredLayer]:
    """Return the auxiliary layers whose input and output sizes vary apart from each other, up to
    `largest_bytes`.

    Without that the cost of a byte in and of a byte out could not be separated.
    """
    most = min(max(_LEAST_BYTES, largest_bytes), _MOST_BYTES)
    channels = _CHANNELS if auxiliary == "avgpool" else 4
    layers = []
    for size in range(_SIZES):
        target = 1024 * (most / 1024) ** (size / (_SIZES - 1))
        extent = max(4, 4 * round(math.sqrt(target / (VALUE_BYTES * channels)) / 4))
        shape = Shape(channels, extent, extent)
        if auxiliary == "avgpool":
            parts = [{"kernel": part, "stride": part} for part in (1, 2, extent)]
            layers += [_layer("avgpool", shape, part) for part in parts]
        else:
            layers += [_convolution(auxiliary, shape, count) for count in (1, 2, channels)]
    return layers


def layer_run(layer: MeasuredLayer, auxiliary: AuxiliaryLayer) -> TimedRun:
    """Return the run of a layer with its auxiliary layer."""
    after = behind(auxiliary, layer.output)
    moved = {"input_bytes": layer_read_bytes(layer), "output_bytes": _bytes([after.output])}
    return TimedRun(kind="layer", layer=layer, auxiliary=after, **moved)


def auxiliary_run(layer: MeasuredLayer) -> TimedRun:
    """Return the run of an auxiliary layer alone."""
    moved = {"input_bytes": layer_read_bytes(layer), "output_bytes": _bytes([layer.output])}
    return TimedRun(kind="auxiliary", auxiliary=layer, **moved)


def network_run(network: Network) -> TimedRun:
    """Return the run of the whole network without auxiliary layer, which an estimate is compared with."""
    inputs = [network.shapes[node.name] for node in network.nodes if isinstance(node, Input)]
    outputs = [network.shapes[node.name] for node in fetched_nodes(network)]
    moved = {"input_bytes": _bytes(inputs), "output_bytes": _bytes(outputs)}
    return TimedRun(kind="network", layer=MeasuredLayer.of_network(network), **moved)


def fetched_nodes(network: Network) -> list[Node]:
    """Return the nodes whose values a run of the network fetches: those that no other reads, inputs apart."""
    return [node for node in network.nodes if not (network.consumers[node.name] or isinstance(node, Input))]


def _convolution(auxiliary: AuxiliaryLayer, shape: Shape, channels: int) -> MeasuredLayer:
    kernel, pads = (1, 0) if auxiliary == "conv1x1" else (3, 1)
    return _layer("conv", shape, {"out_channels": channels, "kernel": kernel, "pads": pads})


def _layer(operator: str, shape: Shape, parameters: dict[str, Any]) -> MeasuredLayer:
    return MeasuredLayer(operator=operator, shape=shape.as_tuple(), parameters=parameters)


def layer_read_bytes(layer: MeasuredLayer) -> int:
    """Return the bytes of all inputs of a layer."""
    return _bytes(layer.shapes)


def _bytes(shapes: Iterable[Shape]) -> int:
    return VALUE_BYTES * sum(shape.channels * shape.pixels for shape in shapes)
