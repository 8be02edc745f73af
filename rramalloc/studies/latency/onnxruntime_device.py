"""ONNX Runtime on this machine's CPU."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from rramalloc.errors import DeviceError
from rramalloc.network.node import Conv, Linear
from rramalloc.studies.latency.auxiliary import Run
from rramalloc.studies.latency.onnx_model import input_arrays, model_bytes, network_of, unsupported
from rramalloc.timing.latency_table import Method

if TYPE_CHECKING:
    from rramalloc.network.network import Network

_WARM_UP = 3
_KEPT_BYTES = 2**29
_MODEL_BYTES = 2**31 - 2**20
_WEIGHT_BYTES = 4


class _Session(NamedTuple):
    """A model that is ready to run."""

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

    method: Method = "subtract"

    def __init__(self, network: Network, threads: int = 1) -> None:
        try:
            import onnxruntime
        except ImportError:
            words = "ONNX Runtime is not installed: pip install 'rramalloc[measure]'"
            raise DeviceError("onnxruntime", words) from None
        self._runtime, self._network, self._threads = onnxruntime, network, threads
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._clock_ns = time.thread_time_ns if threads == 1 else time.perf_counter_ns
        clock = "1 thread, thread time" if threads == 1 else f"{threads} threads, wall clock"
        self.name = f"ONNX Runtime {onnxruntime.__version__}, CPU, {clock}, no fusion"

    def refusal(self, run: Run) -> str | None:
        """Operators that ONNX does not have, models that protobuf cannot hold."""
        network = self._built(run)
        if _weight_bytes(network) > _MODEL_BYTES:
            return "its weights are more than one ONNX model holds"
        return unsupported(network)

    def sample(self, run: Run, first: int, count: int) -> list[float]:
        """Times of executions, after some that do not count if the model is new."""
        ready, clock_ns = self._ready(run), self._clock_ns
        times = []
        for _ in range(count):
            begun = clock_ns()
            ready.session.run(None, ready.inputs)
            times.append(float(clock_ns() - begun))
        return times

    def _ready(self, run: Run) -> _Session:
        if run.text in self._sessions:
            self._sessions.move_to_end(run.text)
            return self._sessions[run.text]
        network = self._built(run)
        try:
            session = self._runtime.InferenceSession(
                model_bytes(network), self._options(), providers=["CPUExecutionProvider"]
            )
            ready = _Session(session, input_arrays(network), _weight_bytes(network))
            for _ in range(_WARM_UP):
                session.run(None, ready.inputs)
        except Exception as error:
            reason = " ".join(str(error).split())[:300]
            raise DeviceError("onnxruntime", f"cannot run {run.text[:200]}: {reason}") from error
        self._sessions[run.text] = ready
        while len(self._sessions) > 1 and self._kept_bytes() > _KEPT_BYTES:
            self._sessions.popitem(last=False)
        return ready

    def _options(self) -> Any:
        options = self._runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self._threads, 1
        options.graph_optimization_level = self._runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        return options

    def _built(self, run: Run) -> Network:
        return self._network if run.kind == "network" else network_of(run)

    def _kept_bytes(self) -> int:
        return sum(ready.weight_bytes for ready in self._sessions.values())


def _weight_bytes(network: Network) -> int:
    stages = (node for node in network.nodes if isinstance(node, Conv | Linear))
    return _WEIGHT_BYTES * sum(stage.weight_count(network.input_shape(stage).channels) for stage in stages)
