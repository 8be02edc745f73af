"""Commands and calls of Python list their parameters each: here they are held to be the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import rramalloc
from rramalloc import api
from rramalloc.cli import main
from rramalloc.commands.chiplet import command as chiplet_commands
from rramalloc.commands.export.export import export
from rramalloc.commands.fold.filter_folding import fold
from rramalloc.commands.sweep.sweep import sweep
from rramalloc.commands.tune.tune import tune
from rramalloc.report.page_file import report

PAIRS: list[tuple[Callable[..., None], Callable[..., Any]]] = [
    (main.optimize, api.optimize),
    (main.inspect, api.inspect),
    (main.simulate, api.simulate),
    (main.compare, rramalloc.compare),
    (main.pareto, rramalloc.pareto),
    (main.sweep, sweep),
    (main.tune, tune),
    (main.evaluate, rramalloc.evaluate),
    (main.fold, fold),
    (main.place, rramalloc.place),
    (main.verify, rramalloc.verify),
    (main.export, export),
    (main.convert, api.convert),
    (main.report, report),
    (chiplet_commands.cost, rramalloc.chiplet_cost),
    (chiplet_commands.optimize, rramalloc.chiplet_optimize),
]
OF_PYTHON = {"on_progress", "progress", "stop", "ending", "cancel", "command"}
"""Parameters for which a command has its live line and Ctrl-C."""
COMMAND_WORD = {
    (main.sweep, "folder"): "output", (main.evaluate, "chip"): "hardware", (main.export, "target"): "to",
    (main.convert, "path"): "out", (main.report, "networks"): "network",
    (chiplet_commands.cost, "source"): "sources",
}  # fmt: skip
OWN_DEFAULT = {
    (main.tune, "store"): "tune.sqlite",
    (main.report, "output"): "report.html",
    (main.fold, "network"): None,  # a filter instead
}


@pytest.mark.parametrize(("command", "call"), PAIRS, ids=lambda each: f"{each.__module__}.{each.__name__}")
def test_a_command_has_the_parameters_of_its_call(
    command: Callable[..., None], call: Callable[..., Any]
) -> None:
    options = inspect.signature(command).parameters
    for name, parameter in inspect.signature(call).parameters.items():
        if name in OF_PYTHON:
            continue
        option = options[COMMAND_WORD.get((command, name), name)]
        default = OWN_DEFAULT.get((command, name), parameter.default)
        assert option.default == (None if default == () else default), name
