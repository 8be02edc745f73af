"""warm_up(): compile all that commands use, so that no later one does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from rramalloc.api import optimize
from rramalloc.choices import SweptObjective
from rramalloc.compiled import compilation, compiled_folder
from rramalloc.files import ShippedName
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.hardware.preset_files import DEFAULT_PRESET
from rramalloc.importers import load
from rramalloc.mapping.demand import Storage
from rramalloc.methods.registry import method_named
from rramalloc.public import homes, public
from rramalloc.result import AnswerRecord
from rramalloc.search.problem import Problem
from rramalloc.search.resources import Cost
from rramalloc.search.work import Work
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.units import counted

_ALEXNET = ShippedName("alexnet")
_RESNET8 = ShippedName("resnet8")
_RESNET18 = ShippedName("resnet18")
_ISAAC_TODAES = ShippedName("isaac-todaes")


class WarmUp(AnswerRecord):
    """Result of a warm-up.

    functions: that no file held yet; seconds: of their compilation; folder: all files of compiled code lie
    below it.
    """

    format: Literal["rramalloc-warm-up/1"] = "rramalloc-warm-up/1"
    functions: int
    seconds: float
    folder: str

    def _headline(self) -> tuple[str, str]:
        return "warm-up", self.outcome

    @property
    def outcome(self) -> str:
        """Result in a few words."""
        if not self.functions:
            return "nothing to compile, all is there"
        return f"compiled {counted(self.functions, 'function')} in {self.seconds:.1f} s"


def warm_up() -> WarmUp:
    """Compile all that the commands use, so that no later one does.

    Returns
    -------
    WarmUp
        How many functions were compiled, in how many seconds, and where they are.

    Raises
    ------
    FileError
        What is compiled cannot be kept.
    """
    compiled_folder()  # before the work
    functions, seconds = compilation.functions, compilation.seconds
    for program in PROGRAMS.values():
        program()
    return WarmUp(
        functions=compilation.functions - functions,
        seconds=compilation.seconds - seconds,
        folder=str(compiled_folder()),
    )


def _copies() -> None:
    """Compile the search for copies and its bounds."""
    optimize(_ALEXNET, 200, work=1, progress=False)
    optimize(_RESNET18, "x3", progress=False)  # no proof is found, so every prover is tried


def _modes() -> None:
    """Compile methods, modes of a layer, clocks, placement and chiplets: first what needs no search."""
    graph = StageGraph.build(load(_ALEXNET))
    ones = np.ones_like(graph.windows)
    problem = Problem(graph, ones, Cost(20), Storage.of_copies(ones))
    for name in ("gain", "annealing", "bottleneck", "published", "balance"):
        method_named(name).solve(problem, Work(work=1), 0)
    figures = {"timing": {"step_ns": 1.0}, "energy": {"read_pj": 1.0, "leakage_mw": 1.0}}
    clock = {"timing": {"step_ns": 1.0, "clock": "own"}}
    plain = load_hardware(DEFAULT_PRESET).to_dict()
    _of_room("place", _ALEXNET, {"conv1": 2}, hardware=_ISAAC_TODAES)
    cases: list[tuple[dict[str, Any], SweptObjective]] = [
        (figures, "energy"),
        (figures, "latency"),
        (clock, "latency"),
    ]
    for part, objective in cases:
        hardware = Hardware.model_validate(plain | part)
        optimize(_ALEXNET, 170, hardware=hardware, mapping="sdk", objective=objective, work=1, progress=False)
    small = {"name": "small", "arrays": 400, "crossbar": plain["crossbar"] | {"wordlines": 64}}
    kinds = Hardware.model_validate(plain | {"kinds": [{"name": "large", "arrays": 200}, small]})
    optimize(_ALEXNET, hardware=kinds, work=1, progress=False)
    _of_room("compare", _ALEXNET, 200, work=1, progress=False)
    optimize(_RESNET18, 900, mapping="sdk", work=30, progress=False)
    isaac = load_hardware(ShippedName("isaac"))
    optimize(_RESNET18, "x3", hardware=isaac, mapping="sdk", objective="energy", work=1, progress=False)
    allocation = optimize(_RESNET8, hardware=_ISAAC_TODAES, work=1, progress=False)
    _of_room("place", _RESNET8, allocation, work=1)
    _of_room("chiplet_optimize", _ALEXNET, hardware=_ISAAC_TODAES, work=1)


def _of_room(name: str, *arguments: Any, **options: Any) -> None:
    """Call a public function, if this installation has the room that offers it."""
    if name in homes():
        public(name)(*arguments, **options)


PROGRAMS: Mapping[str, Callable[[], None]] = {"copies": _copies, "modes": _modes}
"""Two halves of the compilation, of about the same time, which may run at once in a process each.

The first compiles bounds and the search for copies, which the second uses after functions that need neither.
"""
