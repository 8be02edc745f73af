"""`read` gives back what any result saved, and says of everything else what it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

import rramalloc
from rramalloc.errors import FileError, RramallocError, SpecError
from rramalloc.files import read_toml
from rramalloc.schemas import record_of, schema_names
from rramalloc.timing.latency_table import LatencyRow, LatencyTable
from rramalloc.timing.measured_layer import MeasuredLayer

NODES = [
    {"name": "in", "op": "input", "shape": [1, 6, 6]},
    {"name": "c", "op": "conv", "inputs": ["in"], "out_channels": 2, "kernel": 3},
]
NETWORK = rramalloc.Network.build("small", NODES)


def test_an_allocation_is_read_as_it_was_saved(tmp_path: Path) -> None:
    allocation = rramalloc.optimize(NETWORK, 4, hardware="isaac")
    allocation.save(tmp_path / "a.json")
    read = rramalloc.read(tmp_path / "a.json")
    assert read == allocation
    assert rramalloc.simulate(NETWORK, read).makespan == allocation.makespan


def test_results_beside_allocations(tmp_path: Path) -> None:
    """Those of commands that `test_result` has none of."""
    allocation = rramalloc.optimize(NETWORK, 4, hardware="isaac")
    results = [
        NETWORK,
        rramalloc.explain(NETWORK, allocation=allocation, work=1),
        rramalloc.export_check(NETWORK, allocation),
    ]
    for number, result in enumerate(results):
        path = tmp_path / f"{number}.json"
        result.save(path)
        assert rramalloc.read(path) == result


def test_hardware_and_tables_in_their_own_files(tmp_path: Path) -> None:
    hardware = rramalloc.load_hardware("isaac")
    for name in ("chip.toml", "chip.json"):
        hardware.save(tmp_path / name)
        assert rramalloc.read(tmp_path / name) == hardware
    assert rramalloc.load_hardware(tmp_path / "chip.toml") == hardware
    row = MeasuredLayer.of(NETWORK, NETWORK.nodes[1]).model_dump()
    table = LatencyTable(rows=(LatencyRow(**row, latency_ns=5.0),))
    for name in ("t.csv", "t.json"):
        table.save(tmp_path / name)
        assert rramalloc.read(tmp_path / name) == table


def test_the_folder_of_a_sweep_is_its_document(tmp_path: Path) -> None:
    spec = {"networks": "alexnet", "arrays": [200], "methods": "none"}
    swept = rramalloc.sweep(spec, tmp_path / "swept", jobs=1)
    swept.save(tmp_path / "swept.json")
    of_folder = rramalloc.read(tmp_path / "swept")
    assert of_folder == rramalloc.read(tmp_path / "swept.json")
    assert of_folder.to_dict() == swept.to_dict()
    assert of_folder.to_frame().equals(swept.to_frame())


def test_every_format_is_read() -> None:
    """The name in a format is the name of its schema, by which its record is found."""
    named = {name: record_of(name).model_fields.get("format") for name in schema_names()}
    formats = {name: get_args(field.annotation) for name, field in named.items() if field is not None}
    assert len(formats) > 20
    for name, texts in formats.items():
        assert {text.rpartition("/")[0] for text in texts} == {f"rramalloc-{name}"}


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ([1], "must be a result of this program, got a list of 1"),
        ({}, "has no `format`"),
        ({"format": "rramalloc-alocation/1"}, "did you mean rramalloc-allocation"),
        ({"format": "other/1"}, "no result of this program has 'other/1'; known: network, hardware"),
        ({"format": 7}, "no result of this program has 7; known: "),
        ({"format": "rramalloc-pareto/99"}, "format: input should be 'rramalloc-pareto/2'"),
        ({"format": "rramalloc-pareto/2"}, "this field is missing"),
        ({"format": "rramalloc-network/1", "name": "a", "nodes": []}, "nodes"),
        ({"copies": {"c": 2}}, "give it to `simulate` as the allocation"),
    ],
)
def test_what_is_no_result(document: Any, told: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(document))
    with pytest.raises(SpecError) as caught:
        rramalloc.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.json", b"{"),
        ("r.json", b"\xff"),
        ("r.json", b""),
        ("r.onnx", b"\x08"),
        ("r.toml", b"a"),
        ("r.csv", b""),
    ],
)
def test_what_cannot_be_read(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    for path in (tmp_path / name, tmp_path / "missing.json", tmp_path):
        with pytest.raises(RramallocError):
            rramalloc.read(path)
    with pytest.raises(FileError, match="no such file"):
        rramalloc.read(tmp_path / "missing.json")


@pytest.mark.parametrize(
    "text", ["a = 1979-05-27", "a = [[{b = 07:32:00}]]", "[c]\nd = 1979-05-27T07:32:00Z"]
)
def test_a_date_of_toml_is_refused(tmp_path: Path, text: str) -> None:
    """No field takes one, and JSON, in which results and sweeps keep values, has none."""
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(FileError, match="holds the date or time"):
        read_toml(path)
