"""Calibration: clocks of the stages that explain a simulator's figures, and what they leave unexplained.

A figure is taken for a fixed part plus exact time in which a batch of stage i lasts a_i + c_i * d_i, with d_i
copies (docs/sources/model.md 11): a_i computes, c_i brings each copy its inputs. Exact time is piecewise
linear in them: the makespan is the sum over the batches of its critical path, the interval and the sum in
turn likewise. So least squares that is linear in the batches of the path, repeated as the path moves, fits
all of them at once. What remains is interpolated between allocations by a Gaussian process, which also says
how sure a prediction is (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, algorithm
2.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from rramalloc.timing.critical_path import critical_path
from rramalloc.timing.simulate import Replication, simulate
from rramalloc.timing.stage_graph import StageGraph

Floats = npt.NDArray[np.float64]
Form = Literal["makespan", "interval", "sum"]
"""What a figure adds up: the batches of the critical path, of the slowest stage, or of all stages."""
FORMS: tuple[Form, ...] = get_args(Form)

_TICKS = 1000
"""Of the mean batch: rounding of clocks to ticks stays below the noise of any fit."""
_ROUNDS = 20
"""Of least squares; paths settle in three to five."""
_STIFFNESS = (1e-5, 1e-4, 1e-3, 1e-2)
"""Weights of the ridge that draws all stages to a common clock; what predicts best is taken."""
_FOLDS = 3
_NOISES, _FACTORS, _PASSES, _LENGTH_PRIOR = (1e-6, 1e-3, 1e-2, 1e-1, 1.0), (0.5, 2.0, 4.0), 2, 0.3
"""Of the Gaussian process: noises relative to the variance, steps of a length, turns over all coordinates,
and how strongly lengths are drawn to the spread of the answers."""


class Clocks(NamedTuple):
    """What a fit finds, in the unit of the figure.

    fixed: independent of copies; batch: for a batch of each stage; per_copy: more for each copy.
    """

    fixed: float
    batch: Floats
    per_copy: Floats

    def lengths(self, copies: Replication) -> Floats:
        """Length of a batch of every stage."""
        return self.batch + self.per_copy * copies


def active_batches(graph: StageGraph, form: Form, copies: Replication, lengths: Floats) -> Floats:
    """Batches of each stage that make up the time: the derivative of the time by the lengths."""
    batches = -(-graph.windows // copies)
    if form == "sum":
        return batches.astype(np.float64)
    active = np.zeros(len(copies))
    if form == "interval":
        slowest = int((batches * lengths).argmax())
        active[slowest] = batches[slowest]
        return active
    scale = _TICKS / max(float(lengths.mean()), 1e-300)
    cycles = np.maximum(1, np.rint(lengths * scale)).astype(np.int64)
    stages = {name: stage for stage, name in enumerate(graph.names)}
    for segment in critical_path(simulate(graph, copies, "next", cycles)):
        active[stages[segment.stage]] += segment.batches
    return active


def exact_time(graph: StageGraph, form: Form, copies: Replication, lengths: Floats) -> float:
    """Time of an allocation with these lengths of batches."""
    batches = -(-graph.windows // copies)
    if form == "sum":
        return float((batches * lengths).sum())
    if form == "interval":
        return float((batches * lengths).max())
    scale = _TICKS / max(float(lengths.mean()), 1e-300)
    cycles = np.maximum(1, np.rint(lengths * scale)).astype(np.int64)
    return simulate(graph, copies, "next", cycles).makespan / scale


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predicts a simulator's figures.

    choice: form, and stiffness of the fit; clocks: as fitted; residual: root mean square of the logarithm of
    figure by prediction of the clocks alone; process: of what they leave.
    """

    graph: StageGraph
    choice: tuple[Form, float]
    clocks: Clocks
    residual: float
    process: Process

    @classmethod
    def fit(
        cls, graph: StageGraph, copies: Sequence[Replication], figures: Sequence[float],
        choice: tuple[Form, float] | None = None,
    ) -> Calibration:  # fmt: skip
        """The best of all forms and stiffnesses, or the one chosen before, for these answers."""
        form, stiffness = choice or _best_choice(graph, copies, figures)
        clocks = _fit_clocks(graph, form, stiffness, copies, figures)
        expected = np.array([_time(graph, form, each, clocks) for each in copies])
        left = _logarithm(figures) - _logarithm(expected)
        process = Process.fit(np.log(np.array(copies, dtype=np.float64)), left)
        return cls(graph, (form, stiffness), clocks, float(np.sqrt((left**2).mean())), process)

    def expect(self, copies: Sequence[Replication]) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the logarithm of every figure."""
        expected = np.array([_time(self.graph, self.choice[0], each, self.clocks) for each in copies])
        mean, deviation = self.process.expect(np.log(np.array(copies, dtype=np.float64)))
        return _logarithm(expected) + mean, deviation

    def predict(self, copies: Sequence[Replication]) -> Floats:
        """The figure of every allocation."""
        return np.exp(self.expect(copies)[0])


def _logarithm(figures: Sequence[float] | Floats) -> Floats:
    """Of figures, which may be 0."""
    logarithm: Floats = np.log(np.maximum(figures, 1e-300))
    return logarithm


def _time(graph: StageGraph, form: Form, copies: Replication, clocks: Clocks) -> float:
    return clocks.fixed + exact_time(graph, form, copies, clocks.lengths(copies))


def _fit_clocks(
    graph: StageGraph, form: Form, stiffness: float, copies: Sequence[Replication], figures: Sequence[float]
) -> Clocks:
    """Non-negative least squares of relative errors, repeated along the critical paths that it finds."""
    from scipy.optimize import nnls  # type: ignore[import-untyped]

    targets: Floats = np.maximum(np.array(figures), 1e-300)
    stages = len(graph.windows)
    weights = importance(figures)
    steps = [exact_time(graph, form, each, np.ones(stages)) for each in copies]
    common = float(np.median(targets / np.array(steps)))
    typical = np.median(np.array(copies), axis=0)
    clocks = best = Clocks(0.0, np.full(stages, common), np.zeros(stages))
    least = math.inf
    # unknowns relative to what they are drawn to: fixed part, batches, and batches by copies
    unit = np.concatenate([[float(np.median(targets))], np.full(stages, common), common / typical])
    weight = math.sqrt(stiffness * len(targets) / stages)
    ridge, drawn = weight * np.eye(len(unit)), weight * np.r_[0.0, np.ones(stages), np.zeros(stages)]
    for _ in range(_ROUNDS):
        active = np.array([active_batches(graph, form, each, clocks.lengths(each)) for each in copies])
        columns = np.hstack([np.ones((len(targets), 1)), active, active * np.array(copies)])
        relative = columns * unit * (weights / targets)[:, None]
        found = nnls(np.vstack([relative, ridge]), np.r_[weights, drawn])[0]
        now = Clocks(float(found[0] * unit[0]), found[1 : stages + 1] * unit[1 : stages + 1],
                     found[stages + 1 :] * unit[stages + 1 :])  # fmt: skip
        # half a step: paths jump where a full one overshoots
        clocks = Clocks(
            0.5 * (clocks.fixed + now.fixed),
            0.5 * (clocks.batch + now.batch),
            0.5 * (clocks.per_copy + now.per_copy),
        )
        expected = np.array([_time(graph, form, each, clocks) for each in copies])
        away = ridge @ (np.r_[clocks.fixed, clocks.batch, clocks.per_copy] / unit) - drawn
        error = float(((expected / targets - 1) ** 2).sum() + (away**2).sum())
        if error < least:
            least, best = error, clocks
    return best


def importance(figures: Sequence[float]) -> Floats:
    """Weights of answers: what is far from the best need not be explained well."""
    least = max(min(figures), 1e-300)
    weights: Floats = least / np.maximum(np.array(figures), least)
    return weights


def _best_choice(
    graph: StageGraph, copies: Sequence[Replication], figures: Sequence[float]
) -> tuple[Form, float]:
    """Form and stiffness that predict left-out answers best."""
    if len(copies) < 2 * _FOLDS:
        return "makespan", _STIFFNESS[-1]
    weights, errors = importance(figures), dict[tuple[Form, float], float]()
    for form in FORMS:
        for stiffness in _STIFFNESS:
            error = 0.0
            for fold in range(_FOLDS):
                kept = [place for place in range(len(copies)) if place % _FOLDS != fold]
                left = [place for place in range(len(copies)) if place % _FOLDS == fold]
                clocks = _fit_clocks(
                    graph, form, stiffness, [copies[at] for at in kept], [figures[at] for at in kept]
                )
                expected = [_time(graph, form, copies[at], clocks) for at in left]
                away = _logarithm([figures[at] for at in left]) - _logarithm(expected)
                error += float(((weights[left] * away) ** 2).sum())
            errors[form, stiffness] = error
    return min(errors, key=lambda key: errors[key])


@dataclass(frozen=True, eq=False)
class Process:
    """A Gaussian process over logarithms of copies, with a Matern 5/2 kernel.

    points: those of the answers; lengths: over which each coordinate matters; variance: of the values; root:
    Cholesky factor of the covariance with the noise, relative to the variance; weights: of the points in the
    mean; likelihood: logarithm of how likely the values are.
    """

    points: Floats
    lengths: Floats
    variance: float
    root: Floats
    weights: Floats
    likelihood: float

    @classmethod
    def fit(cls, points: Floats, values: Floats) -> Process:
        """The most likely lengths, one coordinate after the other; most stages matter little."""
        spread = points.std(axis=0)
        common = np.where(spread > 0, spread, 1.0) * math.sqrt(points.shape[1])

        def score(process: Process) -> float:
            return process.likelihood - _LENGTH_PRIOR * float((np.log(process.lengths / common) ** 2).sum())

        best, noise = cls.of(points, values, common, _NOISES[0]), _NOISES[0]
        for _ in range(_PASSES):
            tried = [(cls.of(points, values, best.lengths, each), each) for each in _NOISES]
            best, noise = max(tried, key=lambda pair: score(pair[0]))
            for coordinate in range(points.shape[1]):
                for factor in _FACTORS:
                    lengths = best.lengths.copy()
                    lengths[coordinate] *= factor
                    best = max(best, cls.of(points, values, lengths, noise), key=score)
        return best

    @classmethod
    def of(cls, points: Floats, values: Floats, lengths: Floats, noise: float) -> Process:
        """The process with these lengths and this noise, relative to the variance that fits them."""
        scaled = points / lengths
        covariance = _matern(_distances(scaled, scaled)) + (noise + 1e-9) * np.eye(len(points))
        root = np.linalg.cholesky(covariance).astype(np.float64)
        weights = np.linalg.solve(root.T, np.linalg.solve(root, values))
        variance = max(float(values @ weights) / len(values), 1e-12)
        likelihood = -0.5 * len(values) * math.log(variance) - float(np.log(np.diag(root)).sum())
        return cls(points, lengths, variance, root, weights, likelihood)

    def expect(self, points: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation at every point."""
        kernel = _matern(_distances(points / self.lengths, self.points / self.lengths))
        explained = np.linalg.solve(self.root, kernel.T)
        left = np.maximum(1 - (explained**2).sum(axis=0), 1e-9)
        return kernel @ self.weights, np.sqrt(self.variance * left)


def _distances(first: Floats, second: Floats) -> Floats:
    squares = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1) - 2 * first @ second.T
    distances: Floats = np.sqrt(np.maximum(squares, 0))
    return distances


def _matern(distance: Floats) -> Floats:
    scaled = math.sqrt(5) * distance
    kernel: Floats = (1 + scaled + scaled**2 / 3) * np.exp(-scaled)
    return kernel


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Rank correlation with mean ranks for ties; None if either side is constant."""
    from scipy.stats import rankdata  # type: ignore[import-untyped]

    if len(first) < 3:
        return None
    ranks = rankdata(first), rankdata(second)
    if any(np.ptp(each) == 0 for each in ranks):
        return None
    return float(np.corrcoef(*ranks)[0, 1])
