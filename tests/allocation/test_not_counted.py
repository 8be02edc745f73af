"""Every result says what its times and energies leave out: of the case, and not of the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rramalloc
from rramalloc import Network
from rramalloc.hardware.loader import as_hardware

NET = Network.build(
    "attends",
    [
        {"name": "in", "op": "input", "shape": [16, 2, 2]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 16, "kernel": 1},
        {"name": "mix", "op": "barrier", "inputs": ["a"], "shape": [16, 2, 2], "dynamic_macs": 512},
        {"name": "b", "op": "conv", "inputs": ["mix"], "out_channels": 16, "kernel": 1},
    ],
)
CHIP: dict[str, Any] = {
    "name": "linked",
    "source": "hand-made",
    "crossbar": {"wordlines": 16, "bitlines": 16, "cell_bits": 8},
    "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"},
    "timing": {"step_ns": 10.0},
    "energy": {"read_pj": 1.0, "area_um2": 100.0, "pj_per_byte": 0.1, "periphery_um2": 10.0},
    "chip": {"arrays_per_tile": 4, "tiles": [4, 4], "hop_ns_tile": 1.0, "bandwidth_tile_gb_s": 8.0},
    "write": {"write_ns_per_row": 1.0},
    "units": {
        "processors": 8,
        "storage_units": 8,
        "unit_bytes": 4096,
        "bandwidth_in_gb_s": 1.0,
        "bandwidth_out_gb_s": 1.0,
    },
}
LINKS, WRITING = "links between tiles", "writing of weights"
PRODUCTS = ["products of computed tensors", "energy of products of computed tensors"]


class _Counts:
    """A simulator that finds what the model says."""

    name = "counts"

    def evaluate(self, network: Network, allocation: rramalloc.Allocation) -> float:
        return float(allocation.makespan)


def starts(texts: Any) -> list[str]:
    return sorted(text.partition(":")[0].partition(",")[0] for text in texts)


def results(tmp_path: Path) -> dict[str, Any]:
    given: dict[str, Any] = {"hardware": CHIP, "work": 1}
    made = rramalloc.optimize(NET, 8, **given)
    NET.save(tmp_path / "net.json")
    goal = {"network": str(tmp_path / "net.json"), "target_ns": "1us"}
    return {
        "optimize": made,
        "simulate": rramalloc.simulate(NET, made),
        "inspect": rramalloc.inspect(NET, hardware=CHIP),
        "explain": rramalloc.explain(NET, allocation=made, work=1, what_if=()),
        "pareto": rramalloc.pareto(NET, 4, **given),
        "compare": rramalloc.compare(NET, [4], methods=["auto"], **given),
        "size": rramalloc.size({"networks": [goal], "hardware": CHIP, "choose": {"timing.step_ns": [10.0]}}),
        "evaluate": rramalloc.evaluate(NET, CHIP, allocations={"a": 1, "b": 1}).document,
        "tune": rramalloc.tune(NET, 4, simulator=_Counts(), hardware=CHIP),
    }


def test_every_result_says_what_its_case_leaves_out(tmp_path: Path) -> None:
    for command, result in results(tmp_path).items():
        assert starts(result.not_counted) == sorted([LINKS, WRITING, *PRODUCTS]), command
        assert result.to_dict()["not_counted"] == list(result.not_counted), command
        facts = {fact.name: fact.value for fact in result.view().facts}
        assert facts["not counted"] == "; ".join(result.not_counted), command


def test_what_is_counted_is_not_listed(tmp_path: Path) -> None:
    plain = {
        name: table for name, table in CHIP.items() if name in ("name", "source", "crossbar", "precision")
    }
    assert rramalloc.optimize("resnet8", "x2", hardware=plain, work=1).not_counted == ()
    placed = rramalloc.optimize(NET, 4, hardware=CHIP, placed=True, work=1)
    assert starts(placed.not_counted) == sorted([WRITING, *PRODUCTS])
    assert starts(rramalloc.simulate(NET, placed).not_counted) == sorted([WRITING, *PRODUCTS])
    assert starts(rramalloc.place(NET, placed).not_counted) == sorted([WRITING, *PRODUCTS])
    plan = rramalloc.optimize_reload(NET, 1, hardware=CHIP, work=1)
    assert starts(plan.not_counted) == sorted([LINKS, *PRODUCTS])
    own = {"read_ns": 10.0, "dac_bits": 8, "clock": "own"}
    rated = CHIP | {"timing": own, "digital": {"ns_per_pixel": {"barrier": 1.0}}}
    timed = rramalloc.optimize(NET, 4, hardware=rated, work=1)
    energy = ["energy of digital nodes", "energy of products of computed tensors"]
    assert starts(timed.not_counted) == sorted([LINKS, WRITING, *energy])


def test_a_proof_of_size_names_the_links_that_it_leaves_out() -> None:
    question = {
        "networks": [{"network": "resnet8", "target_ns": "20us"}],
        "hardware": CHIP,
        "choose": {"chip.bandwidth_tile_gb_s": [0.1, 4.0]},
    }
    found = rramalloc.size(question)
    assert found.proof.startswith("proven on arrays, links not counted: no chip of these 2 candidates")
    assert LINKS in starts(found.not_counted)


def test_a_sweep_says_it_of_its_rows(tmp_path: Path) -> None:
    NET.save(tmp_path / "net.json")
    hardware = tmp_path / "linked.toml"
    as_hardware(CHIP).save(hardware)
    spec = {"networks": [str(tmp_path / "net.json")], "hardware": [str(hardware)], "arrays": [4, 8]}
    done = rramalloc.sweep(spec, tmp_path / "out", jobs=1)
    assert starts(done.not_counted) == sorted([LINKS, WRITING, *PRODUCTS])
    assert done.to_dict()["not_counted"] == list(done.not_counted)
    assert all(row["not_counted"] == "; ".join(done.not_counted) for row in done.rows())
    facts = {fact.name: fact.value for fact in done.view().facts}
    assert facts["not counted"] == "; ".join(done.not_counted)
