"""Every argument of every public call, with values that it must refuse: only RramallocError comes out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands.sweep.conftest import InThisProcess

import rramalloc
from rramalloc.errors import FileError, RramallocError, SpecError

WRONG: dict[str, Any] = {
    "None": None,
    "nan": float("nan"),
    "inf": float("inf"),
    "minus one": -1,
    "zero": 0,
    "2**70": 2**70,
    "True": True,
    "empty": "",
    "x": "x",
    "NUL": "a\0b",
    "bytes": b"x",
    "object": object(),
    "list": [],
    "dict": {},
    "complex": 1j,
    "array": np.arange(3),
    "function": lambda *_: 1 / 0,
    "frame": pd.DataFrame({"a": [1]}),
    "generator": (n for n in [1]),
    "tuple": (1, "a"),
}
NET = [
    {"name": "in", "op": "input", "shape": [1, 6, 6]},
    {"name": "c", "op": "conv", "inputs": ["in"], "out_channels": 2, "kernel": 3},
]


ITSELF = list[Any]()
ITSELF.append(ITSELF)


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in rramalloc.__all__:
        value = getattr(rramalloc, name)
        if inspect.isfunction(value):
            yield name, value
        elif isinstance(value, ModuleType):
            yield name, value  # type: ignore[misc]


CALLS = dict(functions())


def parameters(name: str) -> list[str]:
    call: Any = CALLS[name]
    if isinstance(call, ModuleType):
        homes = {"export": "rramalloc.commands.export.export", "report": "rramalloc.commands.report.report"}
        call = getattr(__import__(homes[name], fromlist=[name]), name)
    return list(inspect.signature(call).parameters)


class Steps:
    """A simulator whose figure is the makespan."""

    name = "steps"

    def evaluate(self, network: rramalloc.Network, allocation: rramalloc.Allocation) -> float:
        return allocation.makespan


@cache
def made() -> tuple[rramalloc.Network, rramalloc.Allocation, Any]:
    """A network, its allocation and a folded filter, which no call changes."""
    network = rramalloc.Network.build("small", NET)
    allocation = rramalloc.optimize(network, 4, work=0, hardware="isaac")
    return network, allocation, rramalloc.fold_filter((4, 2, 2, 4), align=16).fold


def usable(tmp_path: Path) -> dict[str, Any]:
    """One good value for the arguments that have no default."""
    network, made_allocation, fold = made()
    allocation = tmp_path / "a.json"
    made_allocation.save(allocation)
    (tmp_path / "spec.toml").write_text('networks = ["alexnet"]\narrays = ["x1"]\nmethods = ["none"]\n')
    (tmp_path / "table.csv").write_text("a\n1\n")
    return {
        "network": network,
        "arrays": 4,
        "allocation": str(allocation),
        "to": "csv",
        "path": str(tmp_path / "out.json"),
        "shape": (4, 2, 2, 4),
        "align": 4,
        "paths": [str(allocation)],
        "files": [str(allocation)],
        "spec": str(tmp_path / "spec.toml"),
        "folder": str(tmp_path / "sweep"),
        "chip": str(tmp_path / "missing.toml"),
        "source": network,
        "table": str(tmp_path / "table.csv"),
        "text": "simulated",
        "samples": str(tmp_path / "samples.jsonl"),
        "fold": fold,
        "pixels": np.zeros((8, 8, 4)),
        "weights": np.zeros((4, 2, 2, 4)),
        "work": 0,
        "simulator": Steps(),
    }


def arguments_of(name: str, folder: Path) -> dict[str, Any]:
    """Return good values for the arguments that a call requires."""
    good, names = usable(folder), parameters(name)
    required = {given: good[given] for given in names if given in good}
    if name == "from_torch":
        required["module"] = None
    if name == "measure_latency":
        required["device"] = rramalloc.open_device("simulated", required["network"])
    if name == "estimate_latency":
        required["table"] = rramalloc.LatencyTable if hasattr(rramalloc, "LatencyTable") else None
    if name in ("convert", "load"):
        required.pop("to", None)
    if "arrays" in names and name == "compare":
        required["methods"] = ["none"]
    return required


@pytest.mark.parametrize("name", CALLS)
def test_every_wrong_value_works_or_raises_its_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every argument in a folder of its own, as calls write files."""
    faults = []
    for argument in parameters(name):
        (folder := tmp_path / argument).mkdir()
        required = arguments_of(name, folder)
        with monkeypatch.context() as patched:
            patched.chdir(folder)
            if name == "sweep" and argument != "jobs":
                patched.setattr("rramalloc.commands.sweep.sweep.LocalWorkers", InThisProcess)
            for label, value in WRONG.items():
                try:
                    CALLS[name](**(required | {argument: value}))
                except RramallocError:
                    continue
                except Exception as error:  # noqa: BLE001 - what must not happen is listed
                    if argument.startswith("on_") and isinstance(error, ZeroDivisionError):
                        continue  # the user's own function failed
                    faults.append(f"{argument}, {label}: {type(error).__name__}: {str(error)[:100]}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "method", ["with_values", "with_set_values", "with_arrays_of_kinds", "with_crossbar", "save"]
)
def test_methods_of_a_hardware_raise_their_errors(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hardware = rramalloc.load_hardware("isaac")
    _ask(getattr(hardware, method), 2 if method == "with_crossbar" else 1)


@pytest.mark.parametrize("method", ["build", "with_bits", "in_turns", "input_shape", "is_of"])
def test_methods_of_a_network_raise_their_errors(method: str) -> None:
    _ask(getattr(made()[0], method), 2 if method in ("build", "in_turns") else 1)


def _ask(method: Callable[..., Any], count: int) -> None:
    values = [*WRONG.values(), {"c": None}, {"c": (8,)}, {1: 2}, {"timing.step_ns": []}]
    for given in product(values, repeat=count):
        with suppress(RramallocError):
            method(*given)


def test_what_is_no_path_is_not_written_to() -> None:
    _, allocation, _ = made()
    for path in (3, b"a.json", None):
        with pytest.raises(FileError, match="is no path to write to: give a text or a path"):
            allocation.save(path)  # type: ignore[arg-type]
    with pytest.raises(FileError, match=r"^3: is no path to write to"):
        allocation.plot.copies(save=3)  # type: ignore[arg-type]


def _deep() -> dict[str, Any]:
    value = dict[str, Any]()
    for _ in range(100_000):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("call", "argument", "value"),
    [
        ("inspect", "hardware", _deep()),
        ("inspect", "set_values", {"timing.read_ns": _deep()}),
        ("size", "spec", {"networks": _deep()}),
        ("optimize", "copies", _deep()),
        ("compare", "arrays", ITSELF),
    ],
)
def test_what_is_nested_too_deeply_is_refused(call: str, argument: str, value: Any) -> None:
    first = {} if call == "size" else {"network": made()[0]}
    with pytest.raises(SpecError, match=f"^{argument}: is nested too deeply, or holds itself$"):
        getattr(rramalloc, call)(**first, **{argument: value})


def test_a_hardware_takes_no_value_that_is_nested_too_deeply() -> None:
    with pytest.raises(SpecError, match=r"is nested too deeply$"):
        rramalloc.load_hardware("isaac").with_values({"timing.read_ns": _deep()})


@pytest.mark.parametrize(
    ("call", "argument", "value", "told"),
    [
        (
            "optimize",
            "crossbar",
            (128,),
            ": must be a text, a tuple of 2 whole numbers or a configuration of aihwkit, got a tuple of 1",
        ),
        ("optimize", "host", ["conv1", 3], "[1]: must be a text, got 3"),
        ("optimize", "copies", {1: 2}, ": key 1: must be a text, got 1"),
        ("optimize", "at_most", {"a": [3]}, "['a']: must be a number or a text, got a list of 1"),
        ("compare", "methods", "auto", ": must be a list of texts, got 'auto'"),
        ("optimize", "input_shapes", {"x": "a"}, "['x']: must be a list of whole numbers, got 'a'"),
        ("optimize", "hardware", 3, ": must be a Hardware, a dict, a text or a path, got 3"),
        ("optimize", "mapping", 3, ": must be 'im2col', 'kernel_split', 'whole_kernel' or 'sdk', got 3"),
        ("optimize", "arrays", {"a": 2.5}, "['a']: must be a whole number, got 2.5"),
        (
            "optimize",
            "set_values",
            ["a"],
            ": must be SECTION.FIELD=VALUE such as timing.read_ns=5.0, got 'a'",
        ),
    ],
)
def test_a_message_names_the_part_and_every_form_of_it(
    call: str, argument: str, value: Any, told: str
) -> None:
    with pytest.raises(SpecError) as caught:
        getattr(rramalloc, call)(made()[0], **{argument: value})
    assert str(caught.value) == argument + told


def test_what_is_meant_works() -> None:
    """Numbers of NumPy and of pandas, whole floats, pairs, multiples, and what the chip has."""
    network = rramalloc.Network.build("small", NET)
    same = rramalloc.optimize(network, 4, work=1, seed=3).to_dict()
    assert rramalloc.optimize(network, np.int64(4), work=np.int32(1), seed=np.uint8(3)).to_dict() == same  # type: ignore[arg-type]
    assert rramalloc.optimize(network, 4.0, work=1.0, seed=3).to_dict() == same  # type: ignore[arg-type]
    assert rramalloc.optimize(network, "x4", work=1, seed=3).to_dict() == same
    assert rramalloc.optimize(network, 4, crossbar=(128, 128), work=1, seed=3).to_dict() == same
    assert rramalloc.optimize(network, 4, crossbar="128x128", work=1, seed=3).to_dict() == same
    chip = rramalloc.load_hardware("isaac").chip
    assert chip is not None
    assert rramalloc.optimize(network, hardware="isaac", work=0).arrays.budget == chip.arrays
    with pytest.raises(RramallocError, match=r"arrays: must be given, .* has no \[chip\]"):
        rramalloc.optimize(network)
    assert rramalloc.simulate(network, {"c": np.int64(2)}).makespan == 8
    assert rramalloc.export(network, {"c": 2}, "csv").files


@pytest.mark.parametrize(
    ("call", "given", "told"),
    [
        (
            "optimize",
            {"network": "alexnet", "array": 400},
            "rramalloc.optimize: .*'array'; did you mean arrays?",
        ),
        ("report", {"files": [], "titel": "x"}, "rramalloc.report: .*'titel'; did you mean title?"),
        ("simulate", {"network": "alexnet"}, "rramalloc.simulate: missing a required argument: 'allocation'"),
        ("load", {"zzz": 1}, "rramalloc.load: .*$"),
    ],
)
def test_a_wrong_keyword_names_the_call(call: str, given: dict[str, Any], told: str) -> None:
    with pytest.raises(TypeError, match=told.replace("?", r"\?")):
        getattr(rramalloc, call)(**given)
