"""Devices: whatever can be timed from outside, recorded times, and a simulated processor."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Protocol

import numpy as np

from rramalloc.choices import OverheadMethod
from rramalloc.commands.latency.plan import TimedRun, read_bytes
from rramalloc.csv_rows import csv_rows
from rramalloc.errors import DeviceError, SpecError
from rramalloc.files import CSV_LIMIT_BYTES, read_text
from rramalloc.network.network import Network
from rramalloc.network.node import Stage
from rramalloc.records import brief
from rramalloc.timing.latency_table import number
from rramalloc.timing.measured_layer import MeasuredLayer, timed_nodes


class Device(Protocol):
    """Runs what it is given and says how long that took.

    name: device and settings, the same whenever the times can be compared;
    method: how its overhead is best taken off, if the user does not say.
    """

    name: str
    method: OverheadMethod

    def refusal(self, run: TimedRun) -> str | None:
        """Why it cannot do a run, None if it can."""
        ...

    def sample(self, run: TimedRun, first: int, count: int) -> list[float]:
        """Times of up to `count` executions in ns, after `first` taken before; none if it has no more.

        Raises DeviceError.
        """
        ...


def open_device(text: str, network: Network, *, threads: int = 1, seed: int = 0) -> Device:
    """The device "onnxruntime", "simulated", "simulated:noise=0.01,c=5000" or "replay:FILE.csv".

    Raises DeviceError, FileError, SpecError.
    """
    kind, _, rest = text.partition(":")
    if kind == "onnxruntime" and not rest:
        from rramalloc.commands.latency.onnxruntime_device import OnnxRuntimeDevice

        return OnnxRuntimeDevice(network, threads)
    if kind == "simulated":
        return SimulatedDevice(network, parse_settings(rest), seed)
    if kind == "replay" and rest:
        return ReplayDevice(rest)
    raise DeviceError(
        text, "is not known: onnxruntime, simulated, simulated:NAME=VALUE,... or replay:FILE.csv"
    )


_COLUMNS = ("run", "time_ns")


class ReplayDevice:
    """Hands out the times of a file; columns: run (as `rramalloc latency plan` prints it), time_ns.

    Raises FileError; SpecError with line and column; DeviceError if there is no time.
    """

    method: OverheadMethod = "regression"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        where = os.fspath(path)
        self.name = f"replay of {os.path.basename(where)}"
        self._where = where
        self._times: dict[str, list[float]] = {}
        for place, row in csv_rows(read_text(where, CSV_LIMIT_BYTES), where, _COLUMNS):
            time_ns = number(row, "time_ns", place)
            if time_ns < 0 or not row["run"]:
                raise SpecError(place, "needs a run and a time_ns that is not negative")
            self._times.setdefault(row["run"], []).append(time_ns)
        if not self._times:
            raise DeviceError(self.name, f"{where} has no times")

    def refusal(self, run: TimedRun) -> str | None:
        """Runs without a time cannot be done."""
        return None if run.text in self._times else f"{self._where} has no time of it"

    def sample(self, run: TimedRun, first: int, count: int) -> list[float]:
        """The next times of the file."""
        return self._times[run.text][first : first + count]


_SLOW = 3.0
_MOST = 1e9
_SHARES = ("noise", "outliers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The processor: a weight layer takes window_ns a window and mac_ns a product, others value_ns a value.

    a, b: overhead in ns per byte in and out; c: overhead of a run in ns; noise: standard deviation of a time
    relative to it; outliers: share of runs that take three times as long; auxiliary: own work of auxiliary
    layers in ns per byte of their input.
    """

    a: float = 0.05
    b: float = 0.05
    c: float = 20_000.0
    noise: float = 0.03
    outliers: float = 0.0
    auxiliary: float = 0.0
    window_ns: float = 100.0
    mac_ns: float = 0.01
    value_ns: float = 0.1


class SimulatedDevice:
    """Times a run as latency + a * input_bytes + b * output_bytes + c, with noise.

    latencies: true latencies in ns by the text of their layer, instead of those of the settings.
    Sample number k of a run is the same whenever and after whatever it is taken.
    """

    method: OverheadMethod = "regression"

    def __init__(
        self,
        network: Network,
        settings: Settings,
        seed: int = 0,
        latencies: Mapping[str, float] | None = None,
    ) -> None:
        self._network, self._settings, self._seed = network, settings, seed
        self._latencies = latencies or {}
        values = ", ".join(f"{field.name}={getattr(settings, field.name):g}" for field in fields(settings))
        self.name = f"simulated, seed {seed}, {values}"

    def refusal(self, run: TimedRun) -> str | None:
        """None: it can do everything."""
        return None

    def latency_ns(self, layer: MeasuredLayer) -> float:
        """The true latency of a layer."""
        if layer.text in self._latencies:
            return self._latencies[layer.text]
        pixels, node = layer.output.pixels, layer.node
        if isinstance(node, Stage):
            macs = node.weight_count(layer.shape[0]) * pixels
            return pixels * self._settings.window_ns + macs * self._settings.mac_ns
        return pixels * layer.output.channels * self._settings.value_ns

    def overhead_ns(self, run: TimedRun) -> float:
        """The true overhead of a run."""
        return self._settings.a * run.input_bytes + self._settings.b * run.output_bytes + self._settings.c

    def sample(self, run: TimedRun, first: int, count: int) -> list[float]:
        """The true time with noise."""
        true_ns = self.overhead_ns(run) + self._work_ns(run)
        return [true_ns * self._factor(run.text, number) for number in range(first, first + count)]

    def _work_ns(self, run: TimedRun) -> float:
        if run.kind == "network":
            return self._network_ns
        own = 0.0 if run.auxiliary is None else self._settings.auxiliary * read_bytes(run.auxiliary)
        return own if run.layer is None else own + self.latency_ns(run.layer)

    @cached_property
    def _network_ns(self) -> float:
        network = self._network
        return sum(self.latency_ns(MeasuredLayer.of(network, node)) for node in timed_nodes(network))

    def _factor(self, text: str, number: int) -> float:
        digest = hashlib.sha256(f"{self._seed} {number} {text}".encode()).digest()
        random = np.random.default_rng(int.from_bytes(digest[:8], "big"))
        factor = max(0.0, 1.0 + self._settings.noise * float(random.standard_normal()))
        return factor * (_SLOW if random.random() < self._settings.outliers else 1.0)


def parse_settings(text: str) -> Settings:
    """Settings from "noise=0.01,c=5000"; those left out keep their default. Raises DeviceError."""
    names = [field.name for field in fields(Settings)]
    values: dict[str, float] = {}
    for part in text.split(",") if text else []:
        name, _, number = part.partition("=")
        if name not in names:
            raise DeviceError("simulated", f"has no setting {brief(name)}; there are {', '.join(names)}")
        try:
            values[name] = float(number)
        except ValueError:
            raise DeviceError("simulated", f"{name}: must be a number, got {brief(number)}") from None
        limit = 1.0 if name in _SHARES else _MOST
        if not 0 <= values[name] <= limit:
            raise DeviceError("simulated", f"{name}: must be from 0 to {limit:g}, got {brief(number)}")
    return Settings(**values)
