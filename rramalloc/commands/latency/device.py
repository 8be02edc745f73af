"""Devices: ONNX Runtime on this machine's CPU, recorded times, and a simulated processor."""

from __future__ import annotations

import hashlib
import os
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from rramalloc.choices import OverheadMethod
from rramalloc.commands.latency.plan import TimedRun, fetched_nodes, layer_read_bytes
from rramalloc.csv_rows import csv_rows
from rramalloc.errors import DeviceError, SpecError
from rramalloc.files import CSV_LIMIT_BYTES, read_text
from rramalloc.lazy import how_to_install
from rramalloc.network.geometry import Shape
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, ConvTranspose, Input, Linear, Node, Pool, Stage, Upsample
from rramalloc.records import brief
from rramalloc.timing.latency_table import number
from rramalloc.timing.measured_layer import FREE, MeasuredLayer, timed_nodes

DEVICE_OPSET = 13  # of ONNX, of the timed models
IR_VERSION = 8  # of ONNX, of the timed models
_PLAIN = {
    "relu": "Relu",
    "activation": "Sigmoid",
    "add": "Sum",
    "mul": "Mul",
    "global_avgpool": "GlobalAveragePool",
    "global_maxpool": "GlobalMaxPool",
}
_WINDOWED = ("conv", "conv_transpose", "linear", "maxpool", "avgpool", "upsample")
_OTHER = ("input", "concat", "softmax", "batchnorm", *_WINDOWED, *FREE)


def unsupported(network: Network) -> str | None:
    """Return the reason why a network cannot be built as an ONNX model, None if it can."""
    for node in network.nodes:
        if network.shapes[node.name].images > 1:
            return f"{node.name[:60]}: several images"
        if node.op not in _PLAIN and node.op not in _OTHER:
            return f"{node.name[:60]}: {node.op} is no single ONNX operator"
        if node.op == "avgpool" and isinstance(node, Pool) and node.dilation != (1, 1):
            return f"{node.name[:60]}: avgpool with dilation"
        if node.op == "concat" and len({network.shapes[name][1:] for name in node.inputs}) > 1:
            return f"{node.name[:60]}: concat of unequal grids"
    return None


def timed_network(run: TimedRun) -> Network:
    """Return the layers of a run, one after another, as a network."""
    head = run.layer or run.auxiliary
    if head is None:
        raise ValueError("the run has no layer")
    inputs = [Input(name=f"input{place}", shape=shape.as_tuple()) for place, shape in enumerate(head.shapes)]
    nodes: list[Node] = [*inputs, head.node]
    if run.layer is not None and run.auxiliary is not None:
        nodes.append(run.auxiliary.node.model_copy(update={"name": "auxiliary", "inputs": ("layer",)}))
    return Network.build("run", nodes)


def model_bytes(network: Network) -> bytes:
    """Return a serialised model of the network, batch 1, 32-bit floats.

    Raises ValueError if it would be larger than protobuf allows.
    """
    from onnx import TensorProto, helper

    model = _OnnxModel()
    for node in network.nodes:
        model.add(network, node)
    inputs = [node for node in network.nodes if isinstance(node, Input)]
    ends = (
        [
            helper.make_tensor_value_info(
                model.names[node.name], TensorProto.FLOAT, [1, *network.shapes[node.name].as_tuple()]
            )
            for node in nodes
        ]
        for nodes in (inputs, fetched_nodes(network))
    )
    graph = helper.make_graph(model.nodes, "timed", *ends, model.weights)
    opsets = [helper.make_opsetid("", DEVICE_OPSET)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    content: bytes = proto.SerializeToString()
    return content


def input_arrays(network: Network) -> dict[str, Any]:
    """Return a value for each input, by its name in the model."""
    random = np.random.default_rng(0)
    return {
        _value_name(place): random.random((1, *node.shape), dtype=np.float32)
        for place, node in enumerate(network.nodes)
        if isinstance(node, Input)
    }


@dataclass
class _OnnxModel:
    """Nodes and weights of a model while it is made; names: of values, one for each node."""

    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    def add(self, network: Network, node: Node) -> None:
        sources = [self.names[name] for name in node.inputs]
        value = self.names[node.name] = _value_name(len(self.names))
        if isinstance(node, Conv | ConvTranspose):
            self._conv(node, network.input_shape(node).channels, sources[0], value)
        elif isinstance(node, Linear):
            self._linear(node, network.input_shape(node), sources[0], value)
        elif isinstance(node, Pool):
            highest = node.op == "maxpool"
            more = _window(node) | ({"dilations": node.dilation} if highest else {})
            operator = "MaxPool" if highest else "AveragePool"
            self._node(operator, value, sources[0], ceil_mode=int(node.ceil_mode), **more)
        elif node.op == "flatten":
            self._node("Reshape", value, sources[0], np.array([1, *network.shapes[node.name].as_tuple()]))
        elif node.op in FREE:
            self.names[node.name] = sources[0]
        elif isinstance(node, Upsample):
            scales = np.array([1, 1, *node.scale], dtype=np.float32)
            # the nearest pixel is that of ONNX' default coordinates, too
            by = "half_pixel" if node.mode == "nearest" else node.coordinates
            more = {"mode": node.mode, "coordinate_transformation_mode": by}
            self._node("Resize", value, sources[0], "", scales, **more)
        elif node.op == "batchnorm":
            ones = np.ones(network.shapes[node.name].channels, dtype=np.float32)
            self._node("BatchNormalization", value, sources[0], ones, ones, ones, ones)
        elif node.op in ("concat", "softmax"):
            self._node(node.op.capitalize(), value, *sources, axis=1)
        elif node.op in _PLAIN:
            self._node(_PLAIN[node.op], value, *sources)

    def _conv(self, node: Conv | ConvTranspose, channels: int, source: str, value: str) -> None:
        more: dict[str, Any] = {"dilations": node.dilation, "group": node.groups, **_window(node)}
        matrix = (node.out_channels, channels // node.groups)
        operator = "Conv"
        if isinstance(node, ConvTranspose):
            matrix = (channels, node.out_channels // node.groups)
            operator = "ConvTranspose"
            more |= {"output_padding": node.output_padding}
        bias = np.zeros(node.out_channels, dtype=np.float32)
        self._node(operator, value, source, _random((*matrix, *node.kernel)), bias, **more)

    def _linear(self, node: Linear, shape: Shape, source: str, value: str) -> None:
        """Add a product with a matrix; on a grid the same for every pixel, a 1 x 1 convolution."""
        if shape.pixels > 1:
            like = Conv(name="linear", inputs=("x",), out_channels=node.out_features, kernel=(1, 1))
            self._conv(like, shape.channels, source, value)
            return
        bias = np.zeros(node.out_features, dtype=np.float32)
        weights = _random((node.out_features, shape.channels))
        self._node("Flatten", f"{value}_flat", source)
        self._node("Gemm", f"{value}_product", f"{value}_flat", weights, bias, transB=1)
        self._node("Reshape", value, f"{value}_product", np.array([1, node.out_features, 1, 1]))

    def _node(self, operator: str, output: str, *inputs: Any, **attributes: Any) -> None:
        """Add a node. inputs: names of values, or arrays that become constants."""
        from onnx import helper, numpy_helper

        names = []
        for place, value in enumerate(inputs):
            names.append(value if isinstance(value, str) else f"{output}_{place}")
            if not isinstance(value, str):
                self.weights.append(numpy_helper.from_array(value, names[-1]))
        self.nodes.append(helper.make_node(operator, names, [output], **attributes))


def _value_name(place: int) -> str:
    """Return the name of the value that the node at a place of the network computes."""
    return f"v{place}"


def _random(shape: tuple[int, ...]) -> Any:
    """Return weights that keep values in range through many layers: denormal numbers would be slow."""
    inputs = int(np.prod(shape[1:]))
    centred = np.random.default_rng(0).random(shape, dtype=np.float32) - np.float32(0.5)
    return centred * np.float32(np.sqrt(24.0 / inputs))


_WARM_UP = 3  # executions of a new model that do not count
_KEPT_BYTES = 2**29  # weights of models that stay loaded, since every round visits each run again
_MODEL_BYTES = 2**31 - 2**20  # weights of one model: protobuf ends at 2 GiB, the rest is for the graph
_WEIGHT_BYTES = 4  # 32-bit floats


class _Session(NamedTuple):
    """A loaded model with its inputs."""

    session: Any
    inputs: dict[str, Any]
    weight_bytes: int


class OnnxRuntimeDevice:
    """Times single-layer models with a fixed number of threads and no graph optimisation.

    With one thread the clock is that thread's time on the CPU, so that other work on the machine, which long
    runs suffer from more than short ones, does not count; with more threads it is the wall clock.
    Without optimisation no layer is fused with its neighbour, so that single layers add up to a network.
    The auxiliary layer computes on the same CPU and nothing is transferred: by default its own time is
    subtracted.  Raises DeviceError if ONNX Runtime is not installed.
    """

    def __init__(self, network: Network, threads: int = 1) -> None:
        self.method: OverheadMethod = "subtract"
        try:
            import onnxruntime
        except ImportError:
            words = f"ONNX Runtime is not installed: {how_to_install('measure')}"
            raise DeviceError("onnxruntime", words) from None
        self._runtime, self._network, self._threads = onnxruntime, network, threads
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._clock_ns = time.thread_time_ns if threads == 1 else time.perf_counter_ns
        clock = "1 thread, thread time" if threads == 1 else f"{threads} threads, wall clock"
        self.name = f"ONNX Runtime {onnxruntime.__version__}, CPU, {clock}, no fusion"

    def refusal(self, run: TimedRun) -> str | None:
        """Return the reason why a network cannot be timed: operators that ONNX lacks, models that protobuf
        cannot hold."""
        network = self._built(run)
        if _weight_bytes(network) > _MODEL_BYTES:
            return "its weights are more than one ONNX model holds"
        return unsupported(network)

    def sample(self, run: TimedRun, first: int, count: int) -> list[float]:
        """Return the times of `count` executions, after some that do not count if the model is new."""
        loaded = self._ready(run)
        clock_ns = self._clock_ns
        times = []
        for _ in range(count):
            begun = clock_ns()
            loaded.session.run(None, loaded.inputs)
            times.append(float(clock_ns() - begun))
        return times

    def _ready(self, run: TimedRun) -> _Session:
        if run.text in self._sessions:
            self._sessions.move_to_end(run.text)
            return self._sessions[run.text]
        network = self._built(run)
        try:
            session = self._runtime.InferenceSession(
                model_bytes(network), self._options(), providers=["CPUExecutionProvider"]
            )
            loaded = _Session(session, input_arrays(network), _weight_bytes(network))
            for _ in range(_WARM_UP):
                session.run(None, loaded.inputs)
        except Exception as error:
            reason = " ".join(str(error).split())[:300]
            raise DeviceError("onnxruntime", f"cannot run {run.text[:200]}: {reason}") from error
        self._sessions[run.text] = loaded
        kept = self._sessions
        while len(kept) > 1 and sum(model.weight_bytes for model in kept.values()) > _KEPT_BYTES:
            kept.popitem(last=False)
        return loaded

    def _options(self) -> Any:
        options = self._runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self._threads, 1
        options.graph_optimization_level = self._runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        return options

    def _built(self, run: TimedRun) -> Network:
        return self._network if run.kind == "network" else timed_network(run)


def _window(node: Conv | ConvTranspose | Pool) -> dict[str, Any]:
    return {"kernel_shape": node.kernel, "strides": node.stride, "pads": node.pads}


def _weight_bytes(network: Network) -> int:
    stages = (node for node in network.nodes if isinstance(node, Stage))
    return _WEIGHT_BYTES * sum(stage.weight_count(network.input_shape(stage).channels) for stage in stages)


@runtime_checkable
class Device(Protocol):
    """A device that executes runs and measures their times.

    name: device and settings, the same whenever the times can be compared;
    method: how its overhead is best taken off, if the user does not say.
    """

    name: str
    method: OverheadMethod

    def refusal(self, run: TimedRun) -> str | None:
        """Return the reason why it cannot execute a run, None if it can."""
        ...

    def sample(self, run: TimedRun, first: int, count: int) -> list[float]:
        """Return the times of up to `count` executions in ns, after `first` taken before; none if it has no
        more.

        Raises DeviceError.
        """
        ...


def open_device(text: str, network: Network, *, threads: int = 1, seed: int = 0) -> Device:
    """Return a device on which layers are timed.

    Parameters
    ----------
    text
        "onnxruntime", "simulated", "simulated:noise=0.01,c=5000", or "replay:FILE.csv".
    network
        The Network whose layers are timed.
    threads
        Threads of ONNX Runtime.
    seed
        Of the noise of a simulated device.

    Returns
    -------
    Device
        For `measure_latency`.

    Raises
    ------
    RramallocError
        DeviceError, FileError, SpecError.
    """
    kind, _, rest = text.partition(":")
    if kind == "onnxruntime" and not rest:
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
    """Replays the times of a file; columns: run (as `rramalloc latency plan` prints it), time_ns.

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
        """Return the reason why a run cannot be replayed if the file has no time of it, else None."""
        return None if run.text in self._times else f"{self._where} has no time of it"

    def sample(self, run: TimedRun, first: int, count: int) -> list[float]:
        """Return the next times of the file."""
        return self._times[run.text][first : first + count]


_SLOW = 3.0  # factor of an outlier
_MOST = 1e9  # largest value of a setting
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

    def __init__(
        self,
        network: Network,
        settings: Settings,
        seed: int = 0,
        latencies: Mapping[str, float] | None = None,
    ) -> None:
        self.method: OverheadMethod = "regression"
        self._network, self._settings, self._seed = network, settings, seed
        self._latencies = latencies or {}
        values = ", ".join(f"{field.name}={getattr(settings, field.name):g}" for field in fields(settings))
        self.name = f"simulated, seed {seed}, {values}"

    def refusal(self, run: TimedRun) -> str | None:
        """Return None: it can do everything."""
        return None

    def latency_ns(self, layer: MeasuredLayer) -> float:
        """Return the true latency of a layer."""
        if layer.text in self._latencies:
            return self._latencies[layer.text]
        pixels = layer.output.pixels
        node = layer.node
        if isinstance(node, Stage):
            macs = node.weight_count(layer.shape[0]) * pixels
            return pixels * self._settings.window_ns + macs * self._settings.mac_ns
        return pixels * layer.output.channels * self._settings.value_ns

    def overhead_ns(self, run: TimedRun) -> float:
        """Return the true overhead of a run."""
        return self._settings.a * run.input_bytes + self._settings.b * run.output_bytes + self._settings.c

    def sample(self, run: TimedRun, first: int, count: int) -> list[float]:
        """Return the true time with noise."""
        true_ns = self.overhead_ns(run) + self._work_ns(run)
        return [true_ns * self._factor(run.text, number) for number in range(first, first + count)]

    def _work_ns(self, run: TimedRun) -> float:
        if run.kind == "network":
            return self._network_ns
        auxiliary_ns = (
            0.0 if run.auxiliary is None else self._settings.auxiliary * layer_read_bytes(run.auxiliary)
        )
        return auxiliary_ns if run.layer is None else auxiliary_ns + self.latency_ns(run.layer)

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
    """Return the settings from "noise=0.01,c=5000"; those left out keep their default. Raises DeviceError."""
    names = [field.name for field in fields(Settings)]
    values: dict[str, float] = {}
    for part in text.split(",") if text else []:
        name, _, number = part.partition("=")
        if name not in names:
            raise DeviceError("simulated", f"has no setting {brief(name)}; there are {', '.join(names)}")
        limit = 1.0 if name in _SHARES else _MOST
        try:
            values[name] = float(number)
        except ValueError:
            raise DeviceError("simulated", f"{name}: must be a number, got {brief(number)}") from None
        if not 0 <= values[name] <= limit:
            raise DeviceError("simulated", f"{name}: must be from 0 to {limit:g}, got {brief(number)}")
    return Settings(**values)
