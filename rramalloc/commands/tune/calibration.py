"""Calibration: a model that predicts a simulator's figures from its previous answers.

A figure is taken for a fixed part plus exact time in which a batch of stage i lasts a_i + c_i * d_i, with d_i
copies (docs/sources/model.md 11): a_i computes, c_i brings each copy its inputs. Exact time is piecewise
linear in them: the makespan is the sum over the batches of its critical path, the interval and the sum in
turn likewise. So least squares that is linear in the batches of the path, repeated as the path moves, fits
all of them at once.

Radial basis functions interpolate between the answers, in copies, exact steps and what clocks predict. Where
that predicts left-out answers better, the clocks of the best form are a trend, and what they leave is
interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from rramalloc.ndarrays import Floats
from rramalloc.timing.critical_path import critical_path
from rramalloc.timing.simulate import Copies, makespan_of, simulate
from rramalloc.timing.stage_graph import StageGraph

Form = Literal["makespan", "interval", "sum"]
"""Sum that a figure follows: batches of the critical path, of the slowest stage, or of all stages."""
FORMS: tuple[Form, ...] = get_args(Form)

_TICKS = 1000  # ticks of the mean batch: rounding of clocks to ticks stays below the noise of any fit
_ROUNDS = 12  # rounds of least squares at most; paths settle in three to five
_LEAST = 1e-6
"""Least figure, as a share of the median: smaller ones, as 0, count as this, since models are of logarithms.
"""
_STIFFNESS = 1e-2  # weight of the ridge that draws all stages to a common clock
_SMOOTHING = 0.1  # of the interpolation, in standard deviations: 1 explained less in three of four tools
_PARTS = 10  # parts of the answers that are left out in turn
_FITTED = 200  # answers at most that say whether clocks are a trend


class PhaseClocks(NamedTuple):
    """Result of a fit, in the unit of the figure.

    fixed: independent of copies; batch: for a batch of each stage; per_copy: more for each copy.
    """

    fixed: float
    batch: Floats
    per_copy: Floats

    @classmethod
    def of(cls, unknowns: Floats) -> PhaseClocks:
        """Return the clocks of all unknowns in one row."""
        return cls(float(unknowns[0]), *np.split(unknowns[1:], 2))

    def lengths(self, copies: Copies) -> Floats:
        """Return the length of a batch of every stage."""
        return self.batch + self.per_copy * copies


def active_batches(graph: StageGraph, form: Form, copies: Copies, lengths: Floats) -> Floats:
    """Return the batches of each stage that make up the time: the derivative of the time by the lengths."""
    batches = -(-graph.windows // copies)
    if form == "sum":
        return batches.astype(np.float64)
    active = np.zeros(len(copies))
    if form == "interval":
        slowest = int((batches * lengths).argmax())
        active[slowest] = batches[slowest]
        return active
    stages = {name: stage for stage, name in enumerate(graph.names)}
    for segment in critical_path(simulate(graph, copies, "next", _ticks(lengths)[0])):
        active[stages[segment.stage]] += segment.batches
    return active


def exact_time(graph: StageGraph, form: Form, copies: Copies, lengths: Floats) -> float:
    """Time of an allocation with these lengths of batches."""
    batches = -(-graph.windows // copies)
    if form == "makespan":
        ticks, scale = _ticks(lengths)
        return simulate(graph, copies, "next", ticks).makespan / scale
    return float((batches * lengths).sum() if form == "sum" else (batches * lengths).max())


def _ticks(lengths: Floats) -> tuple[npt.NDArray[np.int64], float]:
    """Return the ticks of a batch of every stage, and the ticks of a unit of length."""
    scale = _TICKS / max(float(lengths.mean()), 1e-300)
    return np.maximum(1, np.rint(lengths * scale)).astype(np.int64), scale


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predicts a simulator's figures.

    form: sum whose clocks have the least error; clocks: of every form; residual: root mean square of the
    logarithm of figure by prediction of the clocks of that form alone; has_trend: whether that prediction is
    subtracted before interpolation; between: interpolates the rest; answers: points of the answers; scale: of
    coordinates; left_out: root mean square error in cross-validation.
    """

    graph: StageGraph
    form: Form
    clocks: dict[Form, PhaseClocks]
    residual: float
    has_trend: bool
    between: Callable[[Floats], Floats]
    answers: Floats
    scale: Floats
    left_out: float

    @classmethod
    def fit(cls, graph: StageGraph, copies: Sequence[Copies], figures: Sequence[float]) -> Calibration:
        """Return the model of these answers."""
        given = np.array(figures, dtype=np.float64)
        given = np.maximum(given, max(_LEAST * float(np.median(given)), 1e-300))
        clocks = {form: fit_clocks(graph, form, copies, given) for form in FORMS}
        timed = _timed(graph, copies, clocks)
        values = np.log(given)
        left = values[:, None] - timed
        best = int(((left * importance(given)[:, None]) ** 2).sum(axis=0).argmin())
        residual = float(np.sqrt((left[:, best] ** 2).mean()))
        at = _description(graph, copies, timed)
        spread = at.std(axis=0)
        scale = np.where(spread > 1e-9, spread, 1.0)
        at = at / scale
        few = slice(_FITTED)
        errors = [_left_out(at[few], part[few]) for part in (values, left[:, best])]
        has_trend = errors[1] < errors[0]
        between = _between(at, left[:, best] if has_trend else values)
        return cls(graph, FORMS[best], clocks, residual, has_trend, between, at, scale, min(errors))

    def expect(self, copies: Sequence[Copies]) -> tuple[Floats, Floats]:
        """Return the mean and standard deviation of the logarithm of every figure.

        A prediction is as sure as those of answers that are left out, and less so the further away.
        """
        from scipy.spatial import KDTree  # type: ignore[import-untyped]

        timed = _timed(self.graph, copies, self.clocks)
        at = _description(self.graph, copies, timed) / self.scale
        trend = timed[:, FORMS.index(self.form)] if self.has_trend else 0.0
        near = KDTree(self.answers)
        spacing = float(np.median(near.query(self.answers, k=2)[0][:, 1]))
        return trend + self.between(at), self.left_out * np.sqrt(near.query(at)[0] / spacing)

    def predict(self, copies: Sequence[Copies]) -> Floats:
        """Return the figure of every allocation."""
        return np.exp(self.expect(copies)[0])


def _description(graph: StageGraph, copies: Sequence[Copies], timed: Floats) -> Floats:
    """Return the logarithms of the copies of every stage and of all, of steps, and of predictions of clocks.

    Steps: in all, in sum, of the slowest stage.
    """
    given = np.array(copies)
    batches = -(-graph.windows // given)
    makespans = [makespan_of(graph, allocation) for allocation in copies]
    of_network = np.c_[given.sum(axis=1), makespans, batches.sum(axis=1), batches.max(axis=1)]
    described: Floats = np.c_[np.log(np.c_[given, of_network].astype(np.float64)), timed]
    return described


def _timed(graph: StageGraph, copies: Sequence[Copies], clocks: dict[Form, PhaseClocks]) -> Floats:
    """Return the logarithms of the predictions of the clocks, a column for each form."""
    times = [[_time(graph, form, allocation, clocks[form]) for form in FORMS] for allocation in copies]
    logarithms: Floats = np.log(np.maximum(times, 1e-300))
    return logarithms


def _time(graph: StageGraph, form: Form, copies: Copies, clocks: PhaseClocks) -> float:
    return clocks.fixed + exact_time(graph, form, copies, clocks.lengths(copies))


def fit_clocks(graph: StageGraph, form: Form, copies: Sequence[Copies], figures: Floats) -> PhaseClocks:
    """Return the non-negative least squares of relative errors, repeated along the critical paths that it
    finds."""
    from scipy.optimize import nnls  # type: ignore[import-untyped]

    stages = len(graph.windows)
    weights = importance(figures)
    steps = [exact_time(graph, form, allocation, np.ones(stages)) for allocation in copies]
    common = float(np.median(figures / np.array(steps)))
    typical = np.median(np.array(copies), axis=0)
    unknowns = best = np.r_[0.0, np.full(stages, common), np.zeros(stages)]
    least = math.inf
    # unknowns relative to what they are drawn to: fixed part, batches, and batches by copies
    unit = np.concatenate([[float(np.median(figures))], np.full(stages, common), common / typical])
    weight = math.sqrt(_STIFFNESS * len(figures) / stages)
    ridge = weight * np.eye(len(unit))
    drawn = weight * np.r_[0.0, np.ones(stages), np.zeros(stages)]
    for _ in range(_ROUNDS):
        clocks = PhaseClocks.of(unknowns)
        active = np.array(
            [active_batches(graph, form, allocation, clocks.lengths(allocation)) for allocation in copies]
        )
        columns = np.hstack([np.ones((len(figures), 1)), active, active * np.array(copies)])
        relative = columns * unit * (weights / figures)[:, None]
        found = nnls(np.vstack([relative, ridge]), np.r_[weights, drawn])[0]
        unknowns = 0.5 * (unknowns + found * unit)  # half a step: paths jump where a full one overshoots
        expected = np.array(
            [_time(graph, form, allocation, PhaseClocks.of(unknowns)) for allocation in copies]
        )
        away = ridge @ (unknowns / unit) - drawn
        error = float(((expected / figures - 1) ** 2).sum() + (away**2).sum())
        if error < least:
            least = error
            best = unknowns
    return PhaseClocks.of(best)


def importance(figures: Floats) -> Floats:
    """Return the weights of answers in the fit: allocations that are far from the best count less."""
    weights: Floats = figures.min() / figures
    return weights


def _between(at: Floats, values: Floats) -> Callable[[Floats], Floats]:
    """Return the function that interpolates values between points."""
    from scipy.interpolate import RBFInterpolator  # type: ignore[import-untyped]

    function: Callable[[Floats], Floats] = RBFInterpolator(
        at, values, smoothing=_SMOOTHING, kernel="linear", degree=0
    )
    return function


def _left_out(at: Floats, values: Floats) -> float:
    """Return the root mean square error of values predicted from the other parts (cross-validation)."""
    part = np.arange(len(at)) % _PARTS
    errors = np.zeros(len(at))
    for out in (part == number for number in range(min(_PARTS, len(at)))):
        errors[out] = _between(at[~out], values[~out])(at[out]) - values[out]
    return float(np.sqrt((errors**2).mean()))


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the rank correlation with mean ranks for ties; None if either side is constant."""
    from scipy.stats import rankdata  # type: ignore[import-untyped]

    if len(first) < 3:
        return None
    ranks = rankdata(first), rankdata(second)
    if any(np.ptp(side) == 0 for side in ranks):
        return None
    return float(np.corrcoef(*ranks)[0, 1])
