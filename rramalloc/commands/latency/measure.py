"""`latency measure`: time all runs of a plan in turn until each median is certain enough."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rramalloc.choices import AUXILIARY_LAYERS, AuxiliaryLayer
from rramalloc.commands.latency.device import Device
from rramalloc.commands.latency.plan import Header, MeasurePlan, SampleFile, TimeSummary
from rramalloc.errors import DeviceError, SpecError
from rramalloc.network.network import Network
from rramalloc.records import brief, check_known, is_whole

MAX_SAMPLES = 1_000_000  # executions of one run


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """Number of executions of each run: more until its median is certain enough, within limits.

    width: of the 95 % confidence interval, relative to the median; batch: executions in a row.
    Raises SpecError for values that make no sense.
    """

    width: float = 0.02
    least: int = 20
    most: int = 400
    batch: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.width <= 1:
            raise SpecError("width", f"must be above 0 and at most 1, got {brief(self.width)}")
        for name in ("least", "most", "batch"):
            count = getattr(self, name)
            if not is_whole(count, 1, MAX_SAMPLES):
                raise SpecError(name, f"must be from 1 to {MAX_SAMPLES}, got {brief(count)}")
        if self.least > self.most:
            raise SpecError("least", f"{self.least} executions at least, but {self.most} at most")

    def enough(self, times_ns: list[float]) -> bool:
        """Return True if a run needs no more times."""
        if len(times_ns) >= self.most:
            return True
        return len(times_ns) >= self.least and TimeSummary.of(times_ns).width <= self.width


class MeasureProgress(NamedTuple):
    """Runs of the plan, those whose median is certain enough, and executions timed in all."""

    runs: int
    done: int
    executions: int


class Measured(NamedTuple):
    """Result of a measurement: (run, reason) of runs the device refused, and executions timed now."""

    refused: tuple[tuple[str, str], ...]
    executions: int


def measure_latency(
    network: Network,
    device: Device,
    samples: str | os.PathLike[str],
    *,
    auxiliary: AuxiliaryLayer | Sequence[AuxiliaryLayer] = "avgpool",
    layers: Sequence[str] = (),
    effort: Repetition | None = None,
    seed: int = 0,
    on_progress: Callable[[MeasureProgress], None] | None = None,
) -> Measured:
    """Time everything that the latencies of a network's layers need.

    The runs are timed in turn, in another order every round, so that a slow minute of the machine does not
    fall on one layer alone. A file that holds samples of the same network, device and auxiliary layer is
    continued: nothing is measured twice.

    Parameters
    ----------
    network
        A Network.
    device
        What `open_device` returned, or an object of the same methods.
    samples
        The file that keeps every time.
    auxiliary
        One kind of layer to stand behind a measured one, or several: "avgpool", "conv1x1", "conv3x3".
    layers
        Names of those to time; all if there are none.
    effort
        How often a run is repeated.
    seed
        Of the order of the runs.
    on_progress
        Called with a MeasureProgress after every run.

    Returns
    -------
    Measured
        What was timed, and how often.

    Raises
    ------
    DeviceError
        The device can do nothing of it.
    RramallocError
        FileError, SpecError, UnknownNameError.
    """
    for kind in (auxiliary,) if isinstance(auxiliary, str) else auxiliary:
        check_known("auxiliary layer", kind, AUXILIARY_LAYERS)
    plan = MeasurePlan.of(network, auxiliary, layers)
    refused = {run.text: why for run in plan.runs if (why := device.refusal(run)) is not None}
    plan = plan.without(refused)
    if not any(run.kind == "layer" for run in plan.runs):
        reason = next(iter(refused.values()), "the network has no layer that takes time")
        raise DeviceError(device.name, f"cannot do any layer of {network.name}: {reason}")
    header = Header(device=device.name, method=device.method, plan=plan)
    effort = effort or Repetition()
    executions = 0
    number = 0
    with SampleFile(samples, header) as journal:
        left = [place for place in range(len(plan.runs)) if not effort.enough(journal.times[place])]
        while left:
            random.Random(f"{seed} {number}").shuffle(left)  # noqa: S311
            for place in list(left):
                taken = journal.times[place]
                count = min(effort.batch, effort.most - len(taken))
                times_ns = device.sample(plan.runs[place], len(taken), count)
                if times_ns:
                    journal.append(place, times_ns)
                    executions += len(times_ns)
                if len(times_ns) < count or effort.enough(taken):
                    left.remove(place)
                if on_progress is not None:
                    executed = sum(map(len, journal.times))
                    on_progress(MeasureProgress(len(plan.runs), len(plan.runs) - len(left), executed))
            number += 1
    return Measured(tuple(refused.items()), executions)
