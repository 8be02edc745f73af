"""`auto`, `interval` and `sequential`: the searches of this package, which `search/` holds."""

from __future__ import annotations

from rramalloc.methods.method import Method
from rramalloc.search import auto, interval, sequential

AUTO = Method(
    "auto",
    auto.solve,
    minimises="the exact makespan, or makespan times step",
    source="docs/sources/model.md 8",
    proves="a lower bound of it, often the optimum",
    sees_digital=True,
    reads="case limits question",
)
INTERVAL = Method(
    "interval",
    interval.solve,
    minimises="the largest number of batches, then arrays",
    source="docs/sources/model.md 8",
    proves="that interval, a lower bound of the makespan",
    sees_digital=True,
)
SEQUENTIAL = Method(
    "sequential",
    sequential.solve,
    minimises="the sum of layer times, exactly",
    source="LRMP, arXiv 2312.03146",
    proves="that sum's optimum; nothing about the makespan",
    sees_digital=True,
    reads="case limits objective inputs placed method",
)
