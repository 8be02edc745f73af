"""Device: whatever can be timed from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rramalloc.errors import DeviceError
from rramalloc.studies.latency.auxiliary import Run
from rramalloc.timing.latency_table import Method

if TYPE_CHECKING:
    from rramalloc.network.network import Network


class Device(Protocol):
    """Runs what it is given and says how long that took.

    name: device and settings, the same whenever the times can be compared;
    method: how its overhead is best taken off, if the user does not say.
    """

    name: str
    method: Method

    def refusal(self, run: Run) -> str | None:
        """Why it cannot do a run, None if it can."""
        ...

    def sample(self, run: Run, first: int, count: int) -> list[float]:
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
        from rramalloc.studies.latency.onnxruntime_device import OnnxRuntimeDevice

        return OnnxRuntimeDevice(network, threads)
    if kind == "simulated":
        from rramalloc.studies.latency.simulated import SimulatedDevice, parse_settings

        return SimulatedDevice(network, parse_settings(rest), seed)
    if kind == "replay" and rest:
        from rramalloc.studies.latency.replay import ReplayDevice

        return ReplayDevice(rest)
    raise DeviceError(
        text, "is not known: onnxruntime, simulated, simulated:NAME=VALUE,... or replay:FILE.csv"
    )
