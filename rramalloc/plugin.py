"""Stable names for methods and exports of other packages (docs/plugin.md).

A **method** is a function (problem, work, seed) -> Answer. `optimize(method=...)` takes it as it is, and a
package offers it, or a `Method` around it, as an entry point of the group `rramalloc.methods`.

| name | is |
|---|---|
| `Problem` | what is to be allocated: stages, arrays of a copy, budget, limits |
| `StageGraph` | its stages, their windows, and which windows wait for which (`problem.graph`) |
| `Mode` | block of windows, bits and kind of arrays of a stage |
| `Choice` | an allocation of a problem, with its exact makespan (`problem.choice(copies)`) |
| `Answer` | a choice, a lower bound and what proves it |
| `Work` | what a search may do, and what it did |
| `Method` | a function with its name, its source and what it minimises |
| `clipped`, `most_copies` | copies within the limits of a problem, and those limits |
| `method_named` | a method of rramalloc by name, to begin or to end with |

An **export** is a function (subject) -> Bundle. `export` takes it as its target, and a package offers it as
an entry point of the group `rramalloc.exports`.

| name | is |
|---|---|
| `Subject` | the allocation that is exported: network, copies, hardware |
| `Bundle` | the files, and what the tool does otherwise |
| `ExportedFile`, `json_file` | a file by its name and text, or by its JSON document |
| `Remark`, `remark` | one thing that the tool rounds, ignores or counts in another way |

Both raise `UnsupportedError` for what they cannot express, and may read the `Network` with its layers
(`Node`; a `Stage` is a `Conv`, `ConvTranspose`, `Linear` or `Recurrent`) and the `Hardware`. Their errors are
`RramallocError`s, of which a method that finds nothing raises `SolverError`.
"""

from __future__ import annotations

from typing import Any

from rramalloc.errors import RramallocError, SolverError, UnsupportedError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.mode import Mode
from rramalloc.methods.method import Method, clipped, most_copies
from rramalloc.methods.registry import method_named
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, ConvTranspose, Linear, Node, Recurrent, Stage
from rramalloc.room import load_from
from rramalloc.search.problem import Answer, Choice, Problem
from rramalloc.search.work import Work
from rramalloc.timing.stage_graph import StageGraph

_OF_EXPORTS = {
    "Bundle": "bundle:Bundle",
    "ExportedFile": "bundle:ExportedFile",
    "Remark": "bundle:Remark",
    "Subject": "subject:Subject",
    "json_file": "bundle:json_file",
    "remark": "bundle:remark",
}
"""Attributes of the room of exports, which an installation may be without."""
__all__ = [
    "Answer",
    "Choice",
    "Conv",
    "ConvTranspose",
    "Hardware",
    "Linear",
    "Method",
    "Mode",
    "Network",
    "Node",
    "Problem",
    "Recurrent",
    "RramallocError",
    "SolverError",
    "Stage",
    "StageGraph",
    "UnsupportedError",
    "Work",
    "clipped",
    "method_named",
    "most_copies",
    *_OF_EXPORTS,
]


def __getattr__(name: str) -> Any:
    """Return a name of the room of exports. Raises AttributeError, UnsupportedError."""
    if name not in _OF_EXPORTS:
        raise AttributeError(f"module 'rramalloc.plugin' has no attribute {name!r}")
    return globals().setdefault(name, load_from("export", _OF_EXPORTS[name], name))


def __dir__() -> list[str]:
    """Return the names that stay."""
    return sorted(__all__)
