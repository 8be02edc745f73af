"""What-ifs against values by hand, and against `simulate --set` and `optimize --set --start`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from commands.explain.test_explain import chain, machine
from program import run

import rramalloc
from rramalloc.allocation.optimize import solved
from rramalloc.commands.explain import what_if
from rramalloc.commands.explain.explanation import NOT_TRIED
from rramalloc.commands.explain.what_if import better_values
from rramalloc.commands.place import placer
from rramalloc.errors import SpecError
from rramalloc.hardware.values import texts_of
from rramalloc.search.work import Work

pytestmark = pytest.mark.quick

ADC = """
[timing]
read_ns = 4.0
dac_bits = 1
adc_ns = 1.0
columns_per_adc = 16
[energy]
read_pj = 1.0
area_um2 = 100.0
adc_um2 = 50.0
"""
MEMORY = """
[memory]
bandwidth_gb_s = 0.5
reuse = "row"
scope = "shared"
"""
ONE = chain((16, 1), channels=16)
"""4 windows, one array a copy."""
TWO = chain((4, 3), (8, 3), size=4)


def test_one_layer_by_hand(tmp_path: Path) -> None:
    """A step is 8 slots of max(4, 16 * 1) ns, so 4 windows take 512 ns. An array and its ADC have 150 um2."""
    made = rramalloc.explain(ONE, 1, hardware=machine(tmp_path, ADC), work=1)
    assert made.latency_ns == 512.0
    found = [(each.change, each.have, each.gain, each.more_um2) for each in made.what_if]
    assert found == [
        ("timing.columns_per_adc=8", "16", 0.5, 50.0),
        ("1 more arrays", None, 0.5, 150.0),
        ("timing.dac_bits=2", "1", 0.5, 0.0),
        ("timing.adc_ns=0.5", "1.0", 0.5, 0.0),
        ("timing.read_ns=2.0", "4.0", 0.0, 0.0),
    ]
    assert [each.gain_per_mm2 for each in made.what_if[:3]] == [
        pytest.approx(10000),
        pytest.approx(1e6 / 300),
        None,
    ]
    lines = {fact.name: fact.value for fact in made.view().facts}
    assert lines["gains nothing"] == "timing.read_ns=2.0"
    assert made.what_if[0].words.startswith(
        "timing.columns_per_adc=8 (now 16): 256 ns as it is, 256 ns searched again, 50 % shorter, 50 um2 more"
    )


@pytest.mark.parametrize(
    ("factor", "change"),
    [(2, "timing.adc_ns=0.5"), (4, "timing.adc_ns=0.25"), (8, "timing.dac_bits=8"), (100, None)],
)
def test_the_cheapest_single_change(tmp_path: Path, factor: float, change: str | None) -> None:
    """Bits of an input are fed at once at 8; the reads alone take 8 * 4 ns, a quarter of a step."""
    made = rramalloc.explain(ONE, 1, hardware=machine(tmp_path, ADC), speedup=factor, work=1)
    assert made.speedup_change is not None
    assert made.speedup_change.change == change
    assert ("no single change" in made.speedup_change.words) == (change is None)


CHANGES: list[dict[str, Any]] = [
    {"timing.columns_per_adc": 4},
    {"timing.clock": "own"},
    {"memory.bandwidth_gb_s": 4.0},
    {"crossbar": "32x16", "energy.area_um2": 150.0, "energy.read_pj": 2.0},
    {"timing.step_ns": 9.0, **dict.fromkeys(("energy.adc_um2", "timing.read_ns", "timing.dac_bits"))}
    | dict.fromkeys(("timing.adc_ns", "timing.columns_per_adc")),
]


@pytest.mark.parametrize("objective", ["latency", "interval"])
@pytest.mark.parametrize("mapping", ["im2col", "sdk"])
def test_as_it_is_and_searched_again(tmp_path: Path, objective: Any, mapping: Any) -> None:
    shared: dict[str, Any] = {"hardware": machine(tmp_path, ADC + MEMORY), "mapping": mapping}
    start = rramalloc.optimize(TWO, 8, objective=objective, work=1, **shared)
    made = rramalloc.explain(TWO, allocation=start, what_if=CHANGES, work=1)
    by_change = {", ".join(texts_of(values)): values for values in CHANGES}
    assert {each.change for each in made.what_if} == {*by_change}
    for each in made.what_if:
        values = by_change[each.change]
        as_it_is = rramalloc.simulate(TWO, start, set_values=values)
        arrays = start.arrays.used
        again = rramalloc.optimize(
            TWO, arrays, objective=objective, work=1, set_values=values, start=start, **shared
        )
        assert each.as_it_is is not None
        assert each.searched is not None
        for found, wanted in ((each.as_it_is, as_it_is), (each.searched, again)):
            assert (found.makespan, found.interval, found.latency_ns, found.area_um2, found.energy_pj) == (
                *(wanted.makespan, wanted.interval, wanted.latency_ns),
                *(wanted.area_um2, wanted.energy_pj),
            )
        assert each.searched.value <= each.as_it_is.value * (1 + 1e-9)
        assert each.searched.arrays <= arrays


def test_fields_that_can_be_better() -> None:
    fields = dict(better_values(rramalloc.load_hardware("isaac-todaes"), 2))
    assert {"timing.step_ns", "memory.bandwidth_gb_s"} <= set(fields)
    rated = rramalloc.load_hardware("plain").with_values(
        {
            "timing.clock": "own",
            "timing.step_ns": 4.0,
            "digital.ns_per_pixel.add": 3.0,
        }
    )
    assert dict(better_values(rated, 4)) == {"timing.step_ns": 1.0, "digital.ns_per_pixel.add": 0.75}
    least = rramalloc.load_hardware("isaac").with_values({"timing.columns_per_adc": 1, "timing.dac_bits": 64})
    assert {"timing.columns_per_adc", "timing.dac_bits"}.isdisjoint(dict(better_values(least, 2)))


def test_without_a_time_arrays_alone_change(tmp_path: Path) -> None:
    made = rramalloc.explain(ONE, 1, hardware=machine(tmp_path), work=1)
    assert [(each.change, each.searched and each.searched.value) for each in made.what_if] == [
        ("1 more arrays", 2.0)
    ]


@pytest.mark.parametrize(
    ("text", "change", "words"),
    [
        ("", "timing.step_ns=0.5", "cannot be compared (ns, not steps)"),
        ("[timing]\nstep_ns = 400.0\n", "timing.step_ns=none", "cannot be compared (steps, not ns)"),
    ],
)
def test_a_change_of_the_unit_is_no_gain(tmp_path: Path, text: str, change: str, words: str) -> None:
    """4 steps are neither longer nor shorter than 2 ns, and no answer to `speedup`."""
    machine_of = machine(tmp_path, text)
    made = rramalloc.explain(ONE, 1, hardware=machine_of, what_if=[change], speedup=2.0, work=1)
    (found,) = made.what_if
    assert (found.gain, found.searched, found.words) == (None, None, f"{change}: {words}")
    assert made.speedup_change is not None
    assert made.speedup_change.change != change


def test_a_change_that_does_not_hold_the_network(tmp_path: Path) -> None:
    made = rramalloc.explain(ONE, 1, hardware=machine(tmp_path), what_if=["crossbar=8x8"], work=1)
    assert made.what_if[0].gain is None
    assert "4 arrays" in made.what_if[0].words


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("timing.adc_nss=1", r"what_if: no value .*; did you mean timing\.adc_ns"),
        ("adc", r"what_if: must be SECTION\.FIELD=VALUE"),
        ("crossbar=8x8", r"energy\.area_um2 .* for the new size"),
    ],
)
def test_refused(tmp_path: Path, change: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        rramalloc.explain(ONE, 1, hardware=machine(tmp_path, ADC), what_if=[change], work=1)


def test_the_report_has_a_bar_a_change(tmp_path: Path) -> None:
    made = rramalloc.explain(ONE, 1, hardware=machine(tmp_path, ADC), work=1)
    assert made.plot.what_if().title == "What if: gain of a change"
    assert rramalloc.explain(ONE, 1, what_if=[], work=1).what_if == ()


def test_no_what_if_on_a_terminal() -> None:
    call = ("explain", "alexnet", "--arrays", 200, "--work", 1, "--no-what-if", "-q")
    shown = run(*call)
    assert shown.code == 0, shown.err
    assert "what if" not in shown.out
    assert "gains nothing" not in shown.out
    both = run(*call, "--what-if", "crossbar.cell_bits=4")
    assert both.code == 1
    assert "leave one out" in both.err


def test_a_bound_is_in_the_unit_of_its_value(tmp_path: Path) -> None:
    """With own clocks, too: 4 windows of 8 slots of max(4, 16 * 0.5) ns are 256 ns, which is proven."""
    own = ADC.replace("read_ns = 4.0", 'read_ns = 4.0\nclock = "own"\ntick_ns = 0.5')
    for text in (ADC, own):
        made = rramalloc.explain(ONE, 1, hardware=machine(tmp_path, text), what_if=["timing.adc_ns=0.5"])
        (found,) = made.what_if
        assert found.searched is not None
        assert (found.searched.value, found.searched.lower_bound) == (256.0, 256.0)
        assert found.searched.status == "optimal"


def test_what_ifs_measure_no_buffers_and_end_with_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change is timed as `simulate` times it, without what nobody shows; none is tried late."""

    def unwanted(*_: Any) -> Any:
        raise AssertionError("nobody shows it")

    for name in ("buffers", "critical_path", "layers_in_result"):
        monkeypatch.setattr(f"rramalloc.allocation.simulation.{name}", unwanted)
    allocation = {"copies": {"conv1": 1}}
    asked: dict[str, Any] = {"hardware": machine(tmp_path, ADC), "allocation": allocation, "speedup": 2.0}
    assert rramalloc.explain(ONE, **asked).what_if[0].gain == 0.5
    late = rramalloc.explain(ONE, **asked, stop=Work(time_limit_s=0.0))
    every = [*late.what_if, late.cheaper, late.faster, late.speedup, late.speedup_change]
    assert all(each is not None and each.words.endswith(NOT_TRIED) for each in every)
    assert late.latency_ns == 512.0


def test_more_arrays_are_those_of_the_chip(tmp_path: Path) -> None:
    """docs/sources/model.md 19: 10 % more within the chip, which has 2 arrays: 1 more, then none."""
    chip = ADC + "[chip]\narrays_per_tile = 2\ntiles = [1, 1]\n"
    for used, offered in ((1, ["1 more arrays"]), (2, [])):
        made = rramalloc.explain(ONE, used, hardware=machine(tmp_path, chip), work=1)
        assert [each.change for each in made.what_if if "arrays" in each.change] == offered


def test_a_target_and_what_is_proven_are_in_one_unit(tmp_path: Path) -> None:
    """With own clocks: a batch is 8 slots of 16 ns in ticks of 0.5 ns, and no copies are faster than one."""
    own = ADC.replace("read_ns = 4.0", 'read_ns = 4.0\nclock = "own"\ntick_ns = 0.5')
    made = rramalloc.explain(ONE, 1, hardware=machine(tmp_path, own), work=1, what_if=(), speedup=8)
    assert made.speedup is not None
    assert "256 ticks (128 ns) with all copies allowed, the target is 128 ticks (64 ns)" in made.speedup.words


LINKS = """
[timing]
step_ns = 4.0
[chip]
arrays_per_tile = 1
tiles = [1, 2]
hop_ns_tile = 3.0
bandwidth_tile_gb_s = 2.0
"""


def test_links_are_tried_where_transfer_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layers of an array in two tiles: a step takes a hop of 3 ns and 16 bytes at 2 bytes a ns, 11 ns.

    4 windows take 5 steps, 55 ns: with a hop of 1.5 ns 47.5 ns, with 4 bytes a ns 35 ns.
    """
    monkeypatch.setattr(placer, "TRIES_THAT_PAY", 1)
    network, hardware = chain((16, 1), (16, 1), channels=16), machine(tmp_path, LINKS)
    placed = rramalloc.optimize(network, 2, hardware=hardware, placed=True, work=1)
    assert placed.latency_ns == 55.0
    every = {each.change: each for each in rramalloc.explain(network, allocation=placed, work=1).what_if}
    wanted = {"chip.hop_ns_tile=1.5": 47.5, "chip.bandwidth_tile_gb_s=4.0": 35.0}
    assert every.keys() == {"timing.step_ns=2.0", *wanted}
    for change, latency_ns in wanted.items():
        found = every[change]
        assert found.as_it_is is not None
        assert found.as_it_is.latency_ns == latency_ns
        assert found.gain == pytest.approx(1 - latency_ns / 55)
        (asked,) = rramalloc.explain(network, allocation=placed, work=1, what_if=[change]).what_if
        assert asked.searched is not None
        assert (asked.as_it_is, asked.searched.latency_ns) == (found.as_it_is, latency_ns)
    assert every["chip.bandwidth_tile_gb_s=4.0"].searched is not None  # what gains most is searched first
    searched = rramalloc.explain(network, 2, hardware=hardware, placed=True, work=1)
    assert {each.change: each for each in searched.what_if} == every
    with pytest.raises(SpecError, match="placed: is for an allocation to be searched"):
        rramalloc.explain(network, allocation=placed, placed=True)


def test_a_change_that_moves_tiles_is_placed_anew_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neighbours in a column are a hop apart as in a row: 55 ns, in one try that `stop` can end."""
    network, hardware = chain((16, 1), (16, 1), channels=16), machine(tmp_path, LINKS)
    placed = rramalloc.optimize(network, 2, hardware=hardware, placed=True, work=1)
    asked, arrange = list[dict[str, Any]](), placer.arrange

    def counted(*given: Any, **more: Any) -> Any:
        asked.append(more)
        return arrange(*given, **more)

    monkeypatch.setattr(placer, "arrange", counted)
    made = rramalloc.explain(network, allocation=placed, work=1, what_if=["chip.tiles=[2, 1]"])
    assert made.what_if[0].words.partition(": ")[2].startswith("55 ns as it is, placed anew, 55 ns searched")
    of_anew = [more for more in asked if "taken" not in more]  # the search gives what is taken
    assert [(more["tries"], more["stop"] is not None) for more in of_anew] == [(1, True)]


def test_a_change_that_nobody_named_is_walked_to_where_work_is_worth_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their share of one unit of work is 1; 55 ns become 35 ns."""
    monkeypatch.setattr(placer, "TRIES_THAT_PAY", 1)
    walks, solved = list[int](), what_if.solved

    def counted(case: Any, arrays: int, *given: Any) -> Any:
        walks.append(arrays)
        return solved(case, arrays, *given)

    monkeypatch.setattr(what_if, "solved", counted)
    network, hardware = chain((16, 1), (16, 1), channels=16), machine(tmp_path, LINKS)
    placed = rramalloc.optimize(network, 2, hardware=hardware, placed=True, work=1)
    change = "chip.bandwidth_tile_gb_s=4.0"
    for least, named, is_walked in ((2, None, False), (1, None, True), (2, [change], True)):
        monkeypatch.setattr(what_if, "_LEAST_WALK", least)
        walks.clear()
        made = rramalloc.explain(network, allocation=placed, work=1, what_if=named)
        (searched,) = (each.searched for each in made.what_if if each.change == change)
        assert searched is not None
        assert (searched.latency_ns, bool(walks)) == (35, is_walked)


def test_links_are_refused_where_no_transfer_is_counted(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"hardware": machine(tmp_path, LINKS), "work": 1}
    made = rramalloc.explain(ONE, 1, speedup=2, **asked)
    assert [each.change for each in made.what_if] == ["timing.step_ns=2.0", "1 more arrays"]
    for change in ("chip.hop_ns_tile=1", "chip.bandwidth_chip_gb_s=8"):
        with pytest.raises(SpecError, match=rf"{change[:-2]} is not timed without placed"):
            rramalloc.explain(ONE, 1, what_if=["timing.step_ns=2", change], **asked)


def test_changes_that_cost_no_area_are_a_list_of_their_own(tmp_path: Path) -> None:
    """As in `test_one_layer_by_hand`: 1e6 / 100 % a mm2, then 1e6 / 300; then two that cost none."""
    made = rramalloc.explain(ONE, 1, hardware=machine(tmp_path, ADC), work=1)
    found = [(fact.name, str(fact.value).split(" (")[0].split(":")[0]) for fact in made.view().facts]
    assert [pair for pair in found if pair[0] in {"what if", "no area", "gains nothing"}] == [
        ("what if", "timing.columns_per_adc=8"),
        ("what if", "1 more arrays"),
        ("no area", "timing.dac_bits=2"),
        ("no area", "timing.adc_ns=0.5"),
        ("gains nothing", "timing.read_ns=2.0"),
    ]


def test_searches_of_the_list_share_a_small_part_of_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A twentieth of the work is for all of them; a change that is named has all of it; without work, none.

    The searches of this network are charged nothing that counts, so that the share stays whole.
    """
    allowed = list[int]()

    def recorded(case: Any, arrays: int, request: Any, stop: Work) -> Any:
        allowed.append(stop.work)
        return solved(case, arrays, request, stop)

    monkeypatch.setattr("rramalloc.commands.explain.what_if.solved", recorded)
    asked: dict[str, Any] = {"hardware": machine(tmp_path, ADC), "allocation": {"copies": {"conv1": 1}}}
    rramalloc.explain(ONE, work=100, **asked)
    assert len(allowed) == 5
    assert max(allowed) <= 5
    allowed.clear()
    rramalloc.explain(ONE, work=100, what_if=["timing.adc_ns=0.5"], **asked)
    assert allowed == [100]
    allowed.clear()
    made = rramalloc.explain(ONE, work=0, **asked)
    assert allowed == []
    gains = {each.change: (each.gain, each.searched) for each in made.what_if}
    assert gains["timing.adc_ns=0.5"] == (0.5, None)
    assert gains["1 more arrays"] == (None, None)
