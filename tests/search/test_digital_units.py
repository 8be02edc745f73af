"""Kinds without arrays: digital units in the search, by hand (docs/sources/model.md 18)."""

from __future__ import annotations

from typing import Any

import pytest
from laws.kinds import HAND

import rramalloc
from rramalloc.errors import SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import as_hardware
from rramalloc.network.network import Network

pytestmark = pytest.mark.quick
ENERGY = {"read_pj": 2.0, "leakage_mw": 0.01, "area_um2": 100.0, "pj_per_byte": 0.1}
UNIT = {"macs_per_ns": 64.0, "pj_per_mac": 0.5, "area_um2": 900.0, "leakage_mw": 0.02}


def with_units(
    arrays: int, units: int, rate: float = 64.0, unit: dict[str, Any] | None = None, **more: Any
) -> Hardware:
    """Return arrays of 16 x 16 that take 10 ns, and digital units; a tick is 1 ns."""
    document = {
        "name": "arrays and units",
        "source": "docs/sources/model.md 18",
        "crossbar": {"wordlines": 16, "bitlines": 16, "cell_bits": 1},
        "precision": {"weight_bits": 1, "input_bits": 1, "output_bits": 8, "signed": "offset"},
        "timing": {"step_ns": 10.0, "clock": "own", "tick_ns": 1.0},
        "kinds": [
            {"name": "analog", "arrays": arrays},
            {"name": "digital", "arrays": units, "processor": UNIT | {"macs_per_ns": rate} | (unit or {})},
        ],
    }
    return as_hardware(document | more, None, None)


@pytest.mark.parametrize(
    ("arrays", "units", "rate", "ticks"),
    [(3, 1, 64.0, 42), (1, 2, 64.0, 36), (8, 1, 64.0, 26), (3, 2, 64.0, 28), (8, 2, 16.0, 30)],
)
@pytest.mark.parametrize("mapping", ["im2col", "sdk"])
def test_hand_values(arrays: int, units: int, rate: float, ticks: int, mapping: Any) -> None:
    """a: 4 windows of 256 products, b: of 512; of slow units none is used."""
    found = rramalloc.optimize(
        HAND, hardware=with_units(arrays, units, rate), mapping=mapping, progress=False
    )
    assert (found.makespan, found.lower_bound, found.gap) == (ticks, ticks, 0)
    if rate < 64:
        assert found.arrays.by_kind is not None
        assert {name: own.used for name, own in found.arrays.by_kind.items()} == {"analog": 6, "digital": 0}
        assert found.coverage is not None
        assert found.coverage.digital == ()


def test_energy_area_and_coverage() -> None:
    """a on a unit (26 ticks): 1,024 products, 64 bytes sent; b on 8 arrays: 4 windows of 2 reads."""
    machine = with_units(8, 1, energy=ENERGY)
    found = rramalloc.optimize(HAND, hardware=machine, progress=False)
    a, b = found.layers
    assert (a.kind, a.array_pj, a.digital_pj, a.moved_pj) == ("digital", 0.0, 512.0, pytest.approx(6.4))
    assert (b.kind, b.array_pj, b.digital_pj) == ("analog", 16.0, 0.0)
    leakage_pj = (0.02 + 8 * 0.01) * 26
    assert found.energy_pj == pytest.approx(512 + 6.4 + 16 + leakage_pj)
    assert found.digital_pj == 512.0
    assert found.area_um2 == 900 + 800
    assert found.tops == pytest.approx(2 * 3072 * 1e9 / 16 / 1e12)  # an input every 16 ns
    coverage = found.coverage
    assert coverage is not None
    assert (coverage.digital, coverage.macs.on_arrays, coverage.macs.total) == (("a",), 2048, 3072)
    assert "on digital units: a" in coverage.summary
    again = rramalloc.simulate(HAND, found)
    assert (again.energy_pj, again.coverage) == (found.energy_pj, coverage)


def test_a_proof_names_arrays_and_units() -> None:
    nodes = [node.model_dump(exclude_none=True) for node in HAND.nodes]
    nodes.append({"name": "fc", "op": "linear", "inputs": ["flat"], "out_features": 2})
    nodes.insert(-1, {"name": "flat", "op": "flatten", "inputs": ["b"]})
    found = rramalloc.optimize(
        Network.build("with a classifier", nodes), hardware=with_units(8, 1), progress=False
    )
    assert found.proof.startswith("proven optimal for the layers on arrays and digital units")


@pytest.mark.parametrize(
    ("objective", "kinds"),
    [("latency", ("digital", "analog")), ("energy", ("analog", "analog")), ("edp", ("analog", "analog"))],
)
def test_objectives_choose_analog_or_digital(objective: Any, kinds: tuple[str, str]) -> None:
    """A product costs 0.5 pJ in a unit, a sixteenth of an array's read of 2 pJ for 256 of them."""
    machine = with_units(8, 1, energy=ENERGY)
    found = rramalloc.optimize(HAND, hardware=machine, objective=objective, work=5, progress=False)
    assert tuple(layer.kind for layer in found.layers) == kinds


def test_a_layer_that_is_too_large_for_a_unit_is_on_arrays() -> None:
    """b has 512 weights of 1 bit: 64 bytes; a unit of 63 bytes holds a alone."""
    fitting, small = (with_units(3, 1, unit={"weight_bytes": size}) for size in (64, 63))
    assert rramalloc.optimize(HAND, hardware=fitting, progress=False).makespan == 42
    found = rramalloc.optimize(HAND, hardware=small, progress=False)
    assert [layer.kind for layer in found.layers] == ["digital", "analog"]
    with pytest.raises(SpecError, match="has 64 bytes of weights, more than its digital unit holds"):
        rramalloc.simulate(HAND, {"kind": {"a": "analog", "b": "digital"}, "copies": {}}, hardware=small)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"timing": {"step_ns": 10.0}}, 'clock = "own" in .timing.'),
        (
            {"kinds": [{"name": "a"}, {"name": "b", "processor": UNIT, "energy": {"area_um2": 1.0}}]},
            "energy is of arrays",
        ),
    ],
)
def test_what_a_unit_does_not_go_with(change: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        with_units(3, 1, **change)


def test_a_value_of_a_unit_is_set_by_name() -> None:
    machine = with_units(8, 2)
    slower = machine.with_values({"kinds.digital.processor.macs_per_ns": 16.0})
    assert rramalloc.optimize(HAND, hardware=slower, progress=False).makespan == 30
