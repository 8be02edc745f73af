"""Tuning: the result of `tune`, with the figure of every allocation that the simulator judged."""

from __future__ import annotations

from typing import Any, Literal

from rramalloc.allocation.allocation import Allocation, CaseOptions, NetworkResult, PositiveCount
from rramalloc.network.node import Name
from rramalloc.records import Record, Steps
from rramalloc.units import counted, rounded


class TuneOptions(CaseOptions):
    """Options beyond network, hardware and budget.

    Parameters
    ----------
    simulator
        The tool with its options, or the command.
    evaluations
        Answers after which the search ends.
    jobs
        Evaluations at a time.
    seed
        Of the search.
    timeout_s
        Seconds for one evaluation.
    """

    simulator: str
    evaluations: PositiveCount
    jobs: PositiveCount
    seed: int
    timeout_s: float


class Judged(Record):
    """One allocation that the simulator judged.

    Parameters
    ----------
    number
        In the order of questions, from 1.
    origin
        The search or method that proposed it; "calibration" for what the calibrated model proposed.
    figure
        What the simulator says, the median where it was asked again; None if it failed.
    expected
        Figure that the model expected before the answer; None where there was no model yet.
    failure
        Why there is no figure.
    answers
        How often it was asked.
    spread
        Largest less smallest of its figures; None if it was asked once.
    arrays
        Arrays that the allocation takes.
    makespan
        Exact steps (docs/sources/model.md 4).
    copies
        Copies of every layer by name.
    """

    number: PositiveCount
    origin: str
    figure: float | None
    expected: float | None
    failure: str | None
    answers: PositiveCount
    spread: float | None
    arrays: PositiveCount
    makespan: Steps
    copies: dict[Name, PositiveCount]


class OwnChoice(Record):
    """Allocation that the tool chooses itself.

    Parameters
    ----------
    figure
        What it says of that.
    arrays
        Arrays as the tool counts them.
    copies
        Copies of every layer that it names.
    """

    figure: float
    arrays: PositiveCount
    copies: dict[Name, PositiveCount]


class ModelError(Record):
    """Error of the calibrated model against the simulator.

    Parameters
    ----------
    form
        What a figure adds up: the batches of the critical path ("makespan"), of the slowest stage
        ("interval"), or of all stages ("sum").
    answers
        Figures that it was fitted to.
    residual
        Root mean square of the logarithm of figure by prediction: 0.1 is about 10 %; of the clocks alone.
    left_out
        The same for answers that were left out of the fit in turn, with all parts of the model.
    spearman
        Rank correlation of these predictions with the figures; None if that is not defined.
    fixed
        Part of the figure that no copies change.
    batch, per_copy
        What a batch of every stage adds to a figure, and what more for each of its copies.
    """

    form: Literal["makespan", "interval", "sum"]
    answers: PositiveCount
    residual: float
    left_out: float
    spearman: float | None
    fixed: float
    batch: dict[Name, float]
    per_copy: dict[Name, float]


class Tuning(NetworkResult):
    """The allocation that is best in a simulator, and how it came about.

    Parameters
    ----------
    arrays
        The budget.
    own
        What the tool chooses itself; None for a command, and where it chooses nothing.
    before
        Figure of the allocation with the fewest exact steps; None if the simulator failed on it.
    figure
        Figure of the best allocation.
    allocation
        The best.
    evaluations, failed
        Answers that were asked for, and those among them that are failures.
    deterministic
        Whether the simulator repeated itself when asked again; None if it was not asked again.
    model
        How well the model explains the simulator; None with too few answers.
    judged
        Every allocation that was judged, in the order of questions.
    warnings
        What was assumed, or went wrong on the way.
    """

    rows_in = "judged"
    unlisted = frozenset({"replication"})

    format: Literal["rramalloc-tuning/2"] = "rramalloc-tuning/2"
    options: TuneOptions
    arrays: PositiveCount
    own: OwnChoice | None
    before: float | None
    figure: float
    allocation: Allocation
    evaluations: PositiveCount
    failed: int
    deterministic: bool | None
    model: ModelError | None
    judged: tuple[Judged, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the document of the result's file; the allocation in it is as in its own file."""
        return super().to_dict() | {"allocation": self.allocation.to_dict()}

    def _headline(self) -> tuple[str, str]:
        before = "" if self.before is None else f", {rounded(self.before)} before"
        asked = counted(self.evaluations, "evaluation")
        return (
            self.network.name,
            f"{rounded(self.figure)}{before}, {asked} on {counted(self.arrays, 'array')}",
        )
