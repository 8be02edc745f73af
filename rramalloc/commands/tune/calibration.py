"""Calibration: what a simulator will say of an allocation, learnt from what it said of others.

A figure is taken for a fixed part plus exact time in which a batch of stage i lasts a_i + c_i * d_i, with d_i
copies (docs/sources/model.md 11): a_i computes, c_i brings each copy its inputs. Exact time is piecewise
linear in them: the makespan is the sum over the batches of its critical path, the interval and the sum in
turn likewise. So least squares that is linear in the batches of the path, repeated as the path moves, fits
all of them at once.

A Gaussian process predicts figures from the clocks of all forms, with a trend that it learns, from copies
and from exact steps; it interpolates between allocations and says how sure it is (Kennedy and
O'Hagan, J. R. Stat. Soc. B 63, 425-464, 2001, doi:10.1111/1467-9868.00294; Rasmussen and Williams, Gaussian
Processes for Machine Learning, 2006, algorithm 2.1). Where clocks explain a simulator the trend carries the
prediction, where they mislead it is flat.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

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
_LENGTHS = (0.3, 1.0, 3.0, 10.0)
"""Length scales of the Gaussian process, in standard deviations of a coordinate."""
_SHARES = (0.2, 0.5, 0.8)  # shares of the variance that coordinates explain one by one
_NOISES = (1e-4, 1e-3, 1e-2, 1e-1, 0.3)  # variances of the noise, relative to the variance
_TRENDS = (0.0, 0.3, 3.0, 30.0)  # variances of slopes by what clocks predict, relative to the variance
_TILTS = (0.0, 0.3, 3.0)  # variances of slopes by all coordinates, relative to the variance
_PASSES = 2  # passes over all fields of the shape
_FITTED = 200  # answers at most that choose the shape
_DOUBT = 0.7
"""Factor e^0.7 from their first values by which lengths are a standard deviation less likely: with few
answers the likelihood alone chooses extremes."""


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

    form: whose clocks leave least; clocks: of every form; residual: root mean square of the logarithm of
    figure by prediction of the clocks of that form alone; process: of figures.
    """

    graph: StageGraph
    form: Form
    clocks: dict[Form, PhaseClocks]
    residual: float
    process: GaussianProcess

    @classmethod
    def fit(cls, graph: StageGraph, copies: Sequence[Copies], figures: Sequence[float]) -> Calibration:
        """Return the model of these answers."""
        given = np.array(figures, dtype=np.float64)
        given = np.maximum(given, max(_LEAST * float(np.median(given)), 1e-300))
        clocks = {form: fit_clocks(graph, form, copies, given) for form in FORMS}
        timed = _timed(graph, copies, clocks)
        values = np.log(given)
        left = values[:, None] - timed
        form = FORMS[int(((left * importance(given)[:, None]) ** 2).sum(axis=0).argmin())]
        residual = float(np.sqrt((left[:, FORMS.index(form)] ** 2).mean()))
        process = GaussianProcess.fit(_description(graph, copies), timed, values)
        return cls(graph, form, clocks, residual, process)

    def expect(self, copies: Sequence[Copies]) -> tuple[Floats, Floats]:
        """Return the mean and standard deviation of the logarithm of every figure."""
        timed = _timed(self.graph, copies, self.clocks)
        return self.process.expect(_description(self.graph, copies), timed)

    def predict(self, copies: Sequence[Copies]) -> Floats:
        """Return the figure of every allocation."""
        return np.exp(self.expect(copies)[0])


def _description(graph: StageGraph, copies: Sequence[Copies]) -> Floats:
    """Return the logarithms of the copies of every stage and of all, and of steps: in all, in sum, of the
    slowest."""
    given = np.array(copies)
    batches = -(-graph.windows // given)
    makespans = [makespan_of(graph, each) for each in copies]
    whole = np.c_[given.sum(axis=1), makespans, batches.sum(axis=1), batches.max(axis=1)]
    described: Floats = np.log(np.c_[given, whole].astype(np.float64))
    return described


def _timed(graph: StageGraph, copies: Sequence[Copies], clocks: dict[Form, PhaseClocks]) -> Floats:
    """Return the logarithm of what the clocks of every form predict, a column for each."""
    times = [[_time(graph, form, each, clocks[form]) for form in FORMS] for each in copies]
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
    steps = [exact_time(graph, form, each, np.ones(stages)) for each in copies]
    common = float(np.median(figures / np.array(steps)))
    typical = np.median(np.array(copies), axis=0)
    unknowns = best = np.r_[0.0, np.full(stages, common), np.zeros(stages)]
    least = math.inf
    # unknowns relative to what they are drawn to: fixed part, batches, and batches by copies
    unit = np.concatenate([[float(np.median(figures))], np.full(stages, common), common / typical])
    weight = math.sqrt(_STIFFNESS * len(figures) / stages)
    ridge, drawn = weight * np.eye(len(unit)), weight * np.r_[0.0, np.ones(stages), np.zeros(stages)]
    for _ in range(_ROUNDS):
        clocks = PhaseClocks.of(unknowns)
        active = np.array([active_batches(graph, form, each, clocks.lengths(each)) for each in copies])
        columns = np.hstack([np.ones((len(figures), 1)), active, active * np.array(copies)])
        relative = columns * unit * (weights / figures)[:, None]
        found = nnls(np.vstack([relative, ridge]), np.r_[weights, drawn])[0]
        unknowns = 0.5 * (unknowns + found * unit)  # half a step: paths jump where a full one overshoots
        expected = np.array([_time(graph, form, each, PhaseClocks.of(unknowns)) for each in copies])
        away = ridge @ (unknowns / unit) - drawn
        error = float(((expected / figures - 1) ** 2).sum() + (away**2).sum())
        if error < least:
            least, best = error, unknowns
    return PhaseClocks.of(best)


def importance(figures: Floats) -> Floats:
    """Return the weights of answers: what is far from the best need not be explained well."""
    weights: Floats = figures.min() / figures
    return weights


class KernelShape(NamedTuple):
    """Assumptions of a Gaussian process about the values.

    together, single: lengths over which coordinates matter together and one by one; share: of the variance
    that they explain one by one; trend, tilt: variances of slopes by what clocks predict and by all
    coordinates, and noise, relative to the variance; smooth: Matern 5/2 rather than the exponential kernel,
    which is for values with jumps, as of tools that round, place and take turns.
    """

    together: float = 1.0
    single: float = 1.0
    share: float = 0.5
    trend: float = 3.0
    tilt: float = 0.0
    noise: float = 1e-2
    smooth: bool = False

    @property
    def doubt(self) -> float:
        """Negative logarithm of how likely it is before any answer."""
        return 0.5 * ((math.log(self.together) / _DOUBT) ** 2 + (math.log(self.single) / _DOUBT) ** 2)

    def kernel(self, first: _Points, second: _Points) -> Floats:
        """Return the covariance between points, relative to the variance."""
        squares, single = np.zeros((2, len(first.at), len(second.at)))
        for one, other in zip(first.at.T, second.at.T, strict=True):
            distance = np.abs(one[:, None] - other)
            squares += distance**2
            single += self._fall(distance / self.single)
        count = first.at.shape[1]
        together = self._fall(np.sqrt(squares / count) / self.together)
        slope = first.timed @ second.timed.T / first.timed.shape[1]
        kernel: Floats = self.share * single / count + (1 - self.share) * together + self.trend * slope
        kernel += self.tilt * (first.at @ second.at.T) / count
        return kernel

    def _fall(self, distance: Floats) -> Floats:
        """Return the correlation at a distance."""
        if not self.smooth:
            return np.exp(-distance)
        scaled = math.sqrt(5) * distance
        correlation: Floats = (1 + scaled + scaled**2 / 3) * np.exp(-scaled)
        return correlation


_SHAPES: dict[str, tuple[Any, ...]] = {
    "together": _LENGTHS, "single": _LENGTHS, "share": _SHARES, "trend": _TRENDS, "tilt": _TILTS,
    "noise": _NOISES, "smooth": (False, True),
}  # fmt: skip
"""Values tried for each field of the shape, one after the other."""


class _Points(NamedTuple):
    """Scaled coordinates of allocations, and what clocks predict of them."""

    at: Floats
    timed: Floats


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """A Gaussian process whose kernel is partly a sum over coordinates.

    The sum learns what a stage does by itself from answers that differ in other stages: with as many stages
    as answers nothing else can be learnt (Duvenaud and others, Additive Gaussian Processes, NeurIPS 2011).

    points: of the answers; centre, scale: of coordinates and predictions; level: median of the values;
    variance: of the values; root: Cholesky factor of the covariance with the noise, relative to the variance;
    weights: of the points in the mean; likelihood: logarithm of how likely the values are.
    """

    points: _Points
    centre: _Points
    scale: _Points
    shape: KernelShape
    level: float
    variance: float
    root: Floats
    weights: Floats
    likelihood: float

    @classmethod
    def fit(cls, at: Floats, timed: Floats, values: Floats) -> GaussianProcess:
        """Fit a process with the most likely shape, one of its numbers after the other.

        at: coordinates of the answers; timed: what clocks predict of them, a column for each form.
        """
        few = slice(_FITTED)
        best = cls.of(at[few], timed[few], values[few], KernelShape())
        for _ in range(_PASSES):
            for name, tried in _SHAPES.items():
                shapes = [best.shape._replace(**{name: each}) for each in tried]
                others = [cls.of(at[few], timed[few], values[few], shape) for shape in shapes]
                best = max(best, *others, key=lambda process: process.likelihood - process.shape.doubt)
        return cls.of(at, timed, values, best.shape)

    @classmethod
    def of(cls, at: Floats, timed: Floats, values: Floats, shape: KernelShape) -> GaussianProcess:
        """Return the process of this shape, with the variance that fits it."""
        spread = at.std(axis=0)
        # one scale for all forms: what moves little beside the others explains little
        widest = np.full(timed.shape[1], max(float(timed.std(axis=0).max()), 1e-9))
        scale = _Points(np.where(spread > 1e-9, spread, 1.0), widest)
        centre, level = _Points(at.mean(axis=0), timed.mean(axis=0)), float(np.median(values))
        points = _scaled(at, timed, centre, scale)
        left = values - level
        covariance = shape.kernel(points, points) + (shape.noise + 1e-9) * np.eye(len(at))
        root = np.linalg.cholesky(covariance).astype(np.float64)
        weights = np.linalg.solve(root.T, np.linalg.solve(root, left))
        variance = max(float(left @ weights) / len(left), 1e-12)
        likelihood = -0.5 * len(left) * math.log(variance) - float(np.log(np.diag(root)).sum())
        return cls(points, centre, scale, shape, level, variance, root, weights, likelihood)

    def expect(self, at: Floats, timed: Floats) -> tuple[Floats, Floats]:
        """Return the mean and standard deviation at every point."""
        points = _scaled(at, timed, self.centre, self.scale)
        kernel = self.shape.kernel(points, self.points)
        explained = np.linalg.solve(self.root, kernel.T)
        tilted = self.shape.tilt * (points.at**2).mean(axis=1)
        spread = 1 + self.shape.trend * (points.timed**2).mean(axis=1) + tilted - (explained**2).sum(axis=0)
        return self.level + kernel @ self.weights, np.sqrt(self.variance * np.maximum(spread, 1e-9))


def _scaled(at: Floats, timed: Floats, centre: _Points, scale: _Points) -> _Points:
    """Return the coordinates, what clocks predict among them, in standard deviations."""
    predicted = (timed - centre.timed) / scale.timed
    return _Points(np.c_[(at - centre.at) / scale.at, predicted], predicted)


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the rank correlation with mean ranks for ties; None if either side is constant."""
    from scipy.stats import rankdata  # type: ignore[import-untyped]

    if len(first) < 3:
        return None
    ranks = rankdata(first), rankdata(second)
    if any(np.ptp(each) == 0 for each in ranks):
        return None
    return float(np.corrcoef(*ranks)[0, 1])
