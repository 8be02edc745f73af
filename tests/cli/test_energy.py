"""Energy, area and bits on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.conftest import Run

HARDWARE = """
name = "m"
source = "test"
crossbar = {wordlines = 128, bitlines = 128, cell_bits = 4}
precision = {weight_bits = 8, input_bits = 8, output_bits = 8, signed = "offset"}
timing = {read_ns = 10.0, dac_bits = 1}
"""
ENERGY = "energy = {read_pj = 10.0, leakage_mw = 0.5, area_um2 = 100.0, pj_per_byte = 1.0}\n"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    path = tmp_path / "m.toml"
    path.write_text(HARDWARE + ENERGY)
    return path


def test_lines_and_columns(run: Run, tiny: Path, machine: Path, tmp_path: Path) -> None:
    out = run("optimize", tiny, "--arrays", 40, "--hardware", machine, "--work", 2).out
    assert "energy" in out.splitlines()[0]
    assert [line.split()[0] for line in out.splitlines() if line.startswith(("energy", "EDP", "area"))] == [
        "energy",
        "EDP",
        "area",
    ]
    machine.write_text(HARDWARE)
    out = run("optimize", tiny, "--arrays", 40, "--hardware", machine, "--work", 2).out
    assert "not given by the hardware" in out
    machine.write_text(HARDWARE + "energy = {read_pj = 10.0}\n")
    outcome = run("optimize", tiny, "--arrays", 40, "--hardware", machine, "--work", 2)
    assert "energy       not given an input" in outcome.out
    assert "EDP          not given" in outcome.out
    document = run(
        "optimize", tiny, "--arrays", 40, "--hardware", machine, "--work", 2, "--format", "json"
    ).json
    assert document["energy_pj"] is document["edp"] is document["area_um2"] is None
    assert document["dynamic_pj"] > 0


def test_front_of_energy_and_latency(run: Run, tiny: Path, machine: Path) -> None:
    asked = (
        "--arrays",
        40,
        "--hardware",
        machine,
        "--objective",
        "energy",
        "--against",
        "latency_ns",
        "--work",
        5,
    )
    front = run("pareto", tiny, *asked, "--format", "json").json
    assert (front["against"], front["against_unit"], front["unit"]) == ("latency_ns", "ns", "pJ")
    for point in front["points"]:
        assert (point["value"], point["against_value"]) == (point["energy_pj"], point["latency_ns"])
    assert "energy in pJ against latency_ns in ns" in run("pareto", tiny, *asked).out
    refused = run("pareto", tiny, "--arrays", 40, "--objective", "energy", "--against", "energy")
    assert (refused.code, "put it against another quantity" in refused.err) == (1, True)


def test_bits(run: Run, tiny: Path, machine: Path, tmp_path: Path) -> None:
    bits, network = tmp_path / "bits.csv", tmp_path / "bits.json"
    layer = json.loads(Path(tiny).read_text())["nodes"]
    name = next(node["name"] for node in layer if node["op"] == "conv")
    bits.write_text(f"layer,weight_bits,input_bits,sensitivity\n{name},8,8,0\n{name},4,8,1\n")
    asked = ("--arrays", 40, "--hardware", machine, "--bits", bits, "--work", 5)
    result = tmp_path / "result.json"
    out = run("optimize", tiny, *asked, "--sensitivity", 1, "--bits-network", network, "-o", result).out
    assert "weight bits" in out.splitlines()[0]
    assert "sensitivity  1 in sum" in out
    makespan = json.loads(result.read_text())["makespan"]
    again = run("simulate", network, "--allocation", result, "--format", "json").json
    assert again["makespan"] == makespan
    assert "sensitivity: must be at least" not in run("optimize", tiny, *asked).err
