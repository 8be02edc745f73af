"""Bits and copies chosen together: against every choice of bits, and what is refused."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from laws.strategies import randoms

import rramalloc
from rramalloc.allocation.case import Case
from rramalloc.allocation.layer_bits import BitChoice, BitTable
from rramalloc.allocation.optimize import optimize
from rramalloc.allocation.question import Question
from rramalloc.errors import BudgetError, LimitError, SpecError
from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.demand import Storage
from rramalloc.mapping.mode import PLAIN, Mode
from rramalloc.network.network import Network
from rramalloc.search.work import Work
from rramalloc.timing.simulate import makespan_of

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


def chain(random: Random, size: int = 5) -> Network:
    nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": [2, size, size]}]
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


MEMORY = {"bandwidth_gb_s": 1.0, "reuse": "row", "scope": "per_layer"}
SHARED = MEMORY | {"scope": "shared"}


@pytest.mark.parametrize(
    ("mapping", "clock", "objective", "more"),
    [
        ("im2col", "shared", "latency", None),
        ("im2col", "shared", "latency", MEMORY),
        ("im2col", "own", "latency", SHARED),
        ("im2col", "shared", "interval", SHARED),
        ("im2col", "own", "interval", None),
        ("im2col", "shared", "energy", None),
        ("im2col", "own", "edp", MEMORY),
        ("kernel_split", "own", "latency", None),
        ("sdk", "shared", "latency", SHARED),
        ("sdk", "own", "latency", None),
        ("sdk", "shared", "interval", MEMORY),
        ("sdk", "own", "energy", None),
        ("im2col", "own", "latency", {"inputs": 4}),
        ("im2col", "shared", "energy", {"at_most": {"interval_ns": 600}}),
        ("sdk", "shared", "latency", {"copies": {"a": "2.."}}),
    ],
)
@settings(max_examples=2)
@given(random=randoms)
def test_against_every_choice(
    mapping: Any, clock: str, objective: Any, more: dict[str, Any] | None, random: Random
) -> None:
    """Every choice of bits within the limit, each with all copies and blocks as a problem of its own.

    more: a [memory] or arguments of the call.
    """
    asked = dict(more or {})
    memory = {"memory": asked} if "scope" in asked else {}
    hardware = machine(timing={"read_ns": 5.0, "dac_bits": 1, "clock": clock}, **memory)
    network, rows = chain(random), table(random)
    by_layer = [[choice for layer, choice in rows if layer == name] for name in "ab"]
    limit = sum(min(choice.sensitivity for choice in choices) for choices in by_layer) + random.randint(0, 6)
    arrays = random.choice((8, 20, 60))
    asked = {} if memory else asked
    request = Question(objective=objective, inputs=asked.get("inputs", 1))
    given: dict[str, Any] = {"hardware": hardware, "mapping": mapping, **asked}

    def value_of(found: rramalloc.Allocation) -> float:
        """Return the objective in a unit that all choices share."""
        steps = found.objective_unit in ("steps", "ticks")
        return found.objective_value * (found.unit_ns or 1.0 if steps else 1.0)

    values: list[float] = []
    bounds: list[float] = []
    for choices in itertools.product(*by_layer):
        if sum(choice.sensitivity for choice in choices) <= limit:
            with_bits = network.with_bits(dict(zip("ab", (choice[:2] for choice in choices), strict=True)))
            with contextlib.suppress(BudgetError, LimitError):
                found = rramalloc.optimize(with_bits, arrays, objective=objective, work=1, **given)
                values.append(value_of(found))
                bounds.append(values[-1] * (1 - found.gap))
    choices_by_name = {name: tuple(some) for name, some in zip("ab", by_layer, strict=True)}
    bits = BitTable(choices_by_name).with_limit(limit)
    given.pop("inputs", None)
    case = Case.of(network, given).choosing(bits)
    if not values:
        with pytest.raises((BudgetError, LimitError)):
            optimize(case, arrays, request, Work(work=1))
        return
    best = optimize(case, arrays, request, Work(work=5))
    value = value_of(best)
    assert best.sensitivity is not None
    assert best.sensitivity <= limit
    assert value * (1 - best.gap) <= min(values) * (1 + 1e-9)
    assert value >= min(bounds) * (1 - 1e-9)
    if best.gap == 0:
        assert value <= min(values) * (1 + 1e-9)
    assert set(best.bits) == set(dict(rows))
    again = rramalloc.simulate(network.with_bits(best.bits), best, hardware=hardware, mapping=mapping)
    assert again.makespan == best.makespan


@pytest.mark.parametrize("mapping", ["im2col", "sdk"])
@settings(max_examples=5)
@given(random=randoms)
def test_every_allocation_of_two_layers(mapping: Any, random: Random) -> None:
    """All bits, blocks and copies, timed one by one: the answer is the best of those in both budgets."""
    hardware = machine(timing={"read_ns": 5.0, "dac_bits": 1, "clock": "own", "tick_ns": 5.0})
    network, rows = chain(random, size=3), table(random)
    choices = {name: tuple(choice for layer, choice in rows if layer == name) for name in "ab"}
    limit = sum(min(own.sensitivity for own in some) for some in choices.values()) + random.randint(0, 6)
    arrays = random.randint(4, 20)
    fastest = None
    for pair in itertools.product(*choices.values()):
        if sum(own.sensitivity for own in pair) > limit:
            continue
        bits = {name: own[:2] for name, own in zip("ab", pair, strict=True)}
        graph = Case.of(network.with_bits(bits), {"hardware": hardware, "mapping": mapping}).graph
        each = Storage(graph.stages, None, graph.network, hardware)
        shapes = [(1, 1)] if mapping == "im2col" else None
        every = [
            [
                (block, copies)
                for block in shapes or itertools.product(*(range(1, side + 1) for side in grid[:2]))
                for copies in range(1, grid.recut(block).total + 1)
            ]
            for grid in graph.grids
        ]
        for modes in itertools.product(*every):
            blocks, copies = zip(*modes, strict=True)
            taken = each.costs([Mode(*block) for block in blocks], np.array(copies))
            if mapping == "im2col":
                taken = np.array(copies) * [each.of(i, PLAIN).count.arrays(1) for i in range(2)]
            if taken.sum() <= arrays:
                makespan = makespan_of(graph.in_blocks(blocks), np.array(copies))
                fastest = makespan if fastest is None else min(fastest, makespan)
    case = Case.of(network, {"hardware": hardware, "mapping": mapping})
    case = case.choosing(BitTable(choices).with_limit(limit))
    if fastest is None:
        with pytest.raises(BudgetError):
            optimize(case, arrays, Question(), Work(work=5))
        return
    found = optimize(case, arrays, Question(), Work(work=100))
    assert found.lower_bound <= fastest <= found.makespan
    assert found.gap > 0 or found.makespan == fastest


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
    with pytest.raises(SpecError, match=r"bits: .*, which method 'none' does not take"):
        rramalloc.optimize(chain(Random(1)), 60, hardware=machine(), bits=path, method="none")
    with pytest.raises(BudgetError):
        rramalloc.optimize(chain(Random(1)), 1, hardware=machine(), bits=path)


def test_a_pair_of_bits_has_its_least_sensitivity(tmp_path: Path) -> None:
    path = tmp_path / "bits.csv"
    path.write_text(f"{HEADER}\na,8,8,1\na,4,4,2\na,8,8,3\na,4,4,0.5\n")
    assert BitTable.read(path).choices["a"] == (BitChoice(4, 4, 0.5), BitChoice(8, 8, 1.0))


def test_fewer_bits_are_not_always_faster(tmp_path: Path) -> None:
    """docs/sources/model.md 17: 4 rows by 8 columns of 4-bit weights: an array has columns for two copies.

    Their eight rows take two turns of 4. With 6 bits a weight takes two columns, a copy all 16: one turn.
    """
    layer = {"name": "a", "op": "linear", "inputs": ["in"], "out_features": 8}
    network = Network.build("hand", [{"name": "in", "op": "input", "shape": [4, 4, 1]}, layer])
    hardware = machine(
        crossbar={"wordlines": 32, "bitlines": 16, "cell_bits": 4},
        precision={"weight_bits": 4, "input_bits": 1, "output_bits": 1, "signed": "offset"},
        timing={"read_ns": 1.0, "dac_bits": 1, "rows_per_read": 4, "clock": "own"},
    )
    path = tmp_path / "bits.csv"
    path.write_text(f"{HEADER}\na,4,1,0\na,6,1,0\n")
    found = rramalloc.optimize(network, 4, hardware=hardware, mapping="sdk", bits=path)
    assert (found.makespan, found.lower_bound, found.layers[0].weight_bits) == (1, 1, 6)
