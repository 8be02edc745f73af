"""Bits and copies chosen together: against every choice of bits, and what is refused."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from laws.strategies import randoms

import rramalloc
from rramalloc.allocation.layer_bits import BitChoice, BitTable
from rramalloc.errors import BudgetError, SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.network.network import Network

HEADER = "layer,weight_bits,input_bits,sensitivity"


def machine(**more: Any) -> Hardware:
    tables: dict[str, Any] = {
        "name": "m", "source": "test",
        "crossbar": {"wordlines": 16, "bitlines": 8, "cell_bits": 2},
        "precision": {"weight_bits": 8, "input_bits": 8, "output_bits": 8, "signed": "offset"},
        "timing": {"read_ns": 5.0, "dac_bits": 1},
        "energy": {"read_pj": 3.0, "leakage_mw": 0.2},
    }  # fmt: skip
    return Hardware.model_validate(tables | more)


def chain(random: Random) -> Network:
    nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": [2, 5, 5]}]
    for name, last in (("a", "in"), ("b", "a")):
        nodes.append(
            {"name": name, "op": "conv", "inputs": [last], "out_channels": random.randint(1, 4), "kernel": 2}
        )
    return Network.build("chain", nodes)


def table(random: Random) -> list[tuple[str, BitChoice]]:
    return [
        (name, BitChoice(weight, random.randint(1, 8), random.randint(0, 5) * 1.0))
        for name in "ab"
        for weight in random.sample(range(1, 9), random.randint(1, 3))
    ]


@pytest.mark.parametrize(
    ("mapping", "clock", "objective"),
    [
        ("im2col", "shared", "latency"),
        ("im2col", "shared", "energy"),
        ("im2col", "own", "latency"),
        ("sdk", "shared", "latency"),
    ],
)
@settings(max_examples=3)
@given(random=randoms)
def test_against_every_choice(mapping: Any, clock: str, objective: Any, random: Random) -> None:
    import tempfile

    hardware = machine(timing={"read_ns": 5.0, "dac_bits": 1, "clock": clock})
    network, rows = chain(random), table(random)
    by_layer = [[choice for layer, choice in rows if layer == name] for name in "ab"]
    least = sum(min(choice.sensitivity for choice in choices) for choices in by_layer)
    limit = least + random.randint(0, 6)
    values: list[Any] = []
    bounds: list[float] = []
    for choices in itertools.product(*by_layer):
        if sum(choice.sensitivity for choice in choices) <= limit:
            with_bits = network.with_bits(dict(zip("ab", (choice[:2] for choice in choices), strict=True)))
            found = rramalloc.optimize(
                with_bits, 60, hardware=hardware, mapping=mapping, objective=objective, work=5
            )
            values.append(found.latency_ns if objective == "latency" else found.energy_pj)
            bounds.append(values[-1] * (1 - found.gap))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bits.csv")
        lines = [HEADER, *(f"{layer},{','.join(map(str, choice))}" for layer, choice in rows)]
        path.write_text("\n".join(lines))
        best = rramalloc.optimize(
            network, 60, hardware=hardware, mapping=mapping, objective=objective, bits=path, sensitivity=limit
        )
    value = best.latency_ns if objective == "latency" else best.energy_pj
    assert best.sensitivity is not None
    assert best.sensitivity <= limit
    assert value is not None
    unit = value / best.objective_value
    assert best.lower_bound * unit <= min(values) * (1 + 1e-9)
    assert value >= min(bounds) * (1 - 1e-9)
    if best.gap == 0:
        assert value <= min(values) * (1 + 1e-9)
    chosen = dict(rows)
    assert set(best.bits) == set(chosen)
    again = rramalloc.simulate(network.with_bits(best.bits), best, hardware=hardware, mapping=mapping)
    assert again.makespan == best.makespan


def test_fewer_bits_buy_copies(tmp_path: Path) -> None:
    """8 rows and 4 outputs of 8 bits: 4 columns a weight, two arrays; of 2 bits one, so twice the copies."""
    nodes = [
        {"name": "in", "op": "input", "shape": [2, 5, 5]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 4, "kernel": 2},
    ]
    network = Network.build("one", nodes)
    path = tmp_path / "bits.csv"
    path.write_text(f"{HEADER}\na,8,8,0\na,2,8,1.5\n")
    least = rramalloc.optimize(network, 8, hardware=machine(), bits=path, sensitivity=1)
    assert (least.bits, least.makespan, least.sensitivity) == ({"a": (8, 8)}, 4, 0)
    more = rramalloc.optimize(network, 8, hardware=machine(), bits=path, sensitivity=2)
    assert (more.bits, more.makespan, more.sensitivity) == ({"a": (2, 8)}, 2, 1.5)
    assert more.gap == least.gap == 0


def test_the_choice_with_the_fewest_bits_of_each_kind_need_not_exist(tmp_path: Path) -> None:
    """Weights of 2 bits take 10 rows and 8 columns: one array; of 6 bits, which save most, 24 columns."""
    nodes = [
        {"name": "in", "op": "input", "shape": [2, 5, 1]},
        {"name": "a", "op": "linear", "inputs": ["in"], "out_features": 8},
    ]
    path = tmp_path / "bits.csv"
    path.write_text(f"{HEADER}\na,2,8,2\na,6,2,3\n")
    network = Network.build("one", nodes)
    for arrays in (1, 2):
        found = rramalloc.optimize(network, arrays, hardware=machine(), bits=path, fc="crossbar")
        assert (found.bits, found.arrays.used) == ({"a": (2, 8)}, arrays)
    assert rramalloc.optimize(network, 3, hardware=machine(), bits=path, fc="crossbar").bits == {"a": (6, 2)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("layer,weight_bits\na,8", "column 'input_bits' is missing"),
        (f"{HEADER}\na,0,8,1", "weight_bits must be from 1 to 64"),
        (f"{HEADER}\na,8,x,1", "input_bits must be from 1 to 64"),
        (f"{HEADER}\na,8,8,-1", "sensitivity must be a number from 0 on"),
        (f"{HEADER}\na,8,8,nan", "sensitivity must be a number from 0 on"),
        (f"{HEADER}\nz,8,8,1", "'z' is no weight layer"),
        (f"{HEADER}\na,8,8", "has 3 cells"),
        (f"{HEADER}\na,8,8,3", "must be at least 3"),
    ],
)
def test_what_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "bits.csv"
    path.write_text(text)
    with pytest.raises(SpecError, match=words):
        rramalloc.optimize(chain(Random(1)), 60, hardware=machine(), bits=path, sensitivity=2)


def test_options_that_contradict_each_other(tmp_path: Path) -> None:
    path = tmp_path / "bits.csv"
    path.write_text(f"{HEADER}\na,8,8,0\n")
    with pytest.raises(SpecError, match="which is not given"):
        rramalloc.optimize(chain(Random(1)), 60, hardware=machine(), sensitivity=2)
    with pytest.raises(SpecError, match="with method auto"):
        rramalloc.optimize(chain(Random(1)), 60, hardware=machine(), bits=path, method="none")
    with pytest.raises(BudgetError):
        rramalloc.optimize(chain(Random(1)), 1, hardware=machine(), bits=path)


def test_choices_that_another_is_as_good_as_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "bits.csv"
    path.write_text(f"{HEADER}\na,8,8,1\na,4,8,1\na,4,4,2\na,6,6,3\n")
    assert BitTable.read(path).choices["a"] == (BitChoice(4, 4, 2.0), BitChoice(4, 8, 1.0))
