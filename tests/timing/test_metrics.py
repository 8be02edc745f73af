"""Energy and area, every number worked by hand from docs/sources/model.md 12."""

from __future__ import annotations

from typing import Any

import pytest

import rramalloc
from rramalloc.hardware.hardware import Hardware
from rramalloc.network.network import Network

pytestmark = pytest.mark.quick

ENERGY = {"read_pj": 10.0, "leakage_mw": 0.5, "area_um2": 100.0, "pj_per_byte": 2.0}


def machine(**more: Any) -> Hardware:
    """8 x 8 cells of one bit, weights of one, 4-bit inputs read bit by bit in 5 ns."""
    document: dict[str, Any] = {
        "name": "m", "source": "test",
        "crossbar": {"wordlines": 8, "bitlines": 8, "cell_bits": 1},
        "precision": {"weight_bits": 1, "input_bits": 4, "output_bits": 16, "signed": "offset"},
        "timing": {"read_ns": 5.0, "dac_bits": 1},
        "energy": ENERGY,
    }  # fmt: skip
    return Hardware.model_validate({name: value for name, value in (document | more).items() if value})


def chain() -> Network:
    """`a`: 3 x 3 kernel, 2 -> 8 channels on 4 x 4 windows (18 rows, 3 arrays); `b`: 1 x 1, 8 -> 8."""
    return Network.build(
        "chain",
        [
            {"name": "in", "op": "input", "shape": [2, 4, 4]},
            {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 8, "kernel": 3, "pads": 1},
            {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 8, "kernel": 1},
        ],
    )


COPIES = {"a": 3, "b": 2}


@pytest.mark.parametrize(("idle", "leaking"), [("on", 20), ("gated", 12)])
def test_arrays_that_are_not_in_use(idle: str, leaking: int) -> None:
    """11 arrays in 3 tiles of 4, of a chip of 5 tiles; 180 ns; 100 um2 an array, 50 um2 a tile."""
    tiles = {"arrays_per_tile": 4, "tiles": [1, 5], "chips": [1, 1]}
    energy = ENERGY | {"area_um2": 100.0, "periphery_um2": 50.0, "idle": idle}
    result = rramalloc.simulate(chain(), COPIES, hardware=machine(chip=tiles, energy=energy))
    assert result.static_pj == 0.5 * leaking * 180
    assert (result.area_um2, result.chip_area_um2) == (11 * 100 + 3 * 50, 20 * 100 + 5 * 50)
    document = result.to_dict()
    assert document["chip_area_um2"] == 20 * 100 + 5 * 50


@pytest.mark.parametrize("idle", ["on", "gated"])
def test_least_energy_is_that_of_all_allocations(idle: str) -> None:
    """Gated, the arrays of tiles in use count: copies are worth a tile only where they save enough time."""
    tiles = {"arrays_per_tile": 4, "tiles": [1, 5], "chips": [1, 1]}
    hardware = machine(chip=tiles, energy=ENERGY | {"idle": idle})
    every = [
        rramalloc.simulate(chain(), {"a": a, "b": b}, hardware=hardware).energy_pj
        for a in range(1, 7)
        for b in range(1, 17)
        if 3 * a + b <= 20
    ]
    found = rramalloc.optimize(chain(), arrays=20, hardware=hardware, objective="energy")
    assert found.energy_pj == min(each for each in every if each is not None)
    assert found.lower_bound <= found.objective_value


def test_every_term_by_hand() -> None:
    result = rramalloc.simulate(chain(), COPIES, hardware=machine())
    # 4 slots of 10 pJ. a: 16 blocks * 3 arrays, and 16 pixels of 8 channels of 2 bytes to b: 256 bytes.
    reads = {"a": 16 * 3 * 4 * 10.0, "b": 16 * 1 * 4 * 10.0}
    moved = 256 * 2.0
    assert [layer.dynamic_pj for layer in result.layers] == [reads["a"] + moved, reads["b"]]
    # a: 6 batches, steps 0 ... 5. b needs pixels 0, 1 of a: starts at 1; 8 batches: ends at 9.
    assert (result.makespan, result.step_ns, result.latency_ns) == (9, 20.0, 180.0)
    # arrays 3 * 3 + 2 * 1 = 11
    assert result.arrays == 11
    assert [layer.static_pj for layer in result.layers] == [0.5 * 9 * 180, 0.5 * 2 * 180]
    assert result.dynamic_pj == 1920 + 640 + 512
    assert result.static_pj == 0.5 * 11 * 180
    assert result.energy_pj == 3072 + 990
    assert result.edp == 4062 * 180
    assert result.area_um2 == 1100
    assert [layer.area_um2 for layer in result.layers] == [900, 200]


def test_chips_leak_whole_and_tiles_have_a_periphery() -> None:
    chip = {"arrays_per_tile": 4, "tiles": [2, 4], "chips": [1, 1]}
    result = rramalloc.simulate(
        chain(), COPIES, hardware=machine(chip=chip, energy=ENERGY | {"periphery_um2": 50.0})
    )
    # 32 arrays leak, 11 of them are of layers; 11 arrays take three tiles of four.
    assert result.static_pj == 0.5 * 32 * 180
    assert sum(layer.static_pj or 0 for layer in result.layers) == 0.5 * 11 * 180
    assert result.area_um2 == 1100 + 3 * 50


@pytest.mark.parametrize(
    ("energy", "given"),
    [
        (None, set()),
        ({"read_pj": 1.0}, {"dynamic_pj"}),
        ({"leakage_mw": 1.0}, {"static_pj"}),
        ({"area_um2": 1.0}, {"area_um2"}),
        ({"read_pj": 1.0, "leakage_mw": 0.0}, {"dynamic_pj", "static_pj", "energy_pj", "edp"}),
    ],
)
def test_what_is_not_given_is_null(energy: dict[str, float] | None, given: set[str]) -> None:
    hardware = machine(energy=energy)
    names = {"dynamic_pj", "static_pj", "energy_pj", "edp", "area_um2"}
    for result in (
        rramalloc.simulate(chain(), COPIES, hardware=hardware),
        rramalloc.optimize(chain(), arrays=20, hardware=hardware),
    ):
        document = result.to_dict()
        assert {name for name in names if document.get(name) is not None} == given
        assert (names <= set(document)) == bool(given)
        rows = {name for name in names if name in document["layers"][0]}
        assert rows == given - {"edp"}


def test_optimize_and_simulate_agree() -> None:
    found = rramalloc.optimize(chain(), arrays=20, hardware=machine())
    timed = rramalloc.simulate(chain(), found.copies, hardware=machine())
    for name in ("dynamic_pj", "static_pj", "energy_pj", "edp", "area_um2"):
        assert getattr(found, name) == getattr(timed, name)
