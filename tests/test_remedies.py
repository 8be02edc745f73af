"""What the messages of budgets, targets, tiles and exports advise is followed, and must succeed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from commands.export.nets import conv, network, of

import rramalloc
from rramalloc import Network
from rramalloc.commands.export.subject import LISTED
from rramalloc.errors import (
    BudgetError,
    CapacityError,
    LimitError,
    RramallocError,
    SpecError,
    TargetError,
    UnsupportedError,
)
from rramalloc.hardware.hardware import Hardware

_VALUE = r'(?:"[^"]*"|\[[^\]]*\]|[0-9.]+)'
_SETTINGS = re.compile(rf"\[(\w+)\] (\w+ = {_VALUE}(?:, \w+ = {_VALUE})*)")
_SETTING = re.compile(rf"(\w+) = ({_VALUE})")
_OPTION = re.compile(r"--(arrays|mapping|crossbar) ([\w]+)")
_LIMIT = re.compile(r"--at-most (\w+)=([0-9.e+-]+)")
_BITS = re.compile(r"same weight_bits and input_bits \((\d+) and (\d+)\)")
_TARGET = re.compile(r"give a target of ([0-9.e+-]+) ")


@dataclass(frozen=True)
class Call:
    """A network that is allocated, and then placed or exported.

    own: hardware that it is placed on or exported with, the allocation's if None; then: what is done with the
    allocation.
    """

    network: Network
    hardware: Hardware
    arrays: int | None = None
    given: dict[str, Any] = field(default_factory=dict)
    own: Hardware | None = None
    tool: str | None = None
    placed: bool = False
    placement: bool = False
    allocation: Any = None

    def run(self) -> None:
        allocation = self.allocation
        if allocation is None:
            options = {"work": 4, "hardware": self.hardware, **self.given}
            allocation = rramalloc.optimize(self.network, self.arrays, **options)
        hardware = {} if self.own is None else {"hardware": self.own}
        if self.placed:
            rramalloc.place(self.network, allocation, work=0, **hardware)
        elif self.tool is not None:
            placement = rramalloc.place(self.network, allocation, work=0) if self.placement else None
            made = rramalloc.export(self.network, allocation, self.tool, placement=placement, **hardware)
            assert made.files

    def allocated(self) -> Call:
        """The same with its allocation made."""
        options = {"work": 4, "hardware": self.hardware, **self.given}
        return replace(self, allocation=rramalloc.optimize(self.network, self.arrays, **options))

    def follow(self, remedy: str) -> None:
        """Do what a remedy says. Raises RramallocError if that does not help."""
        if remedy in LITERALLY:
            LITERALLY[remedy](self)
            return
        values = {
            f"{table}.{name}": tomllib.loads(f"x = {value}")["x"]
            for table, settings in _SETTINGS.findall(remedy)
            for name, value in _SETTING.findall(settings)
        }
        options = dict(_OPTION.findall(remedy))
        target, limit = _TARGET.search(remedy), _LIMIT.search(remedy)
        bits = _BITS.search(remedy)
        assert values or options or target or limit or bits or remedy == "allocate without --host", (
            f"nobody knows how to follow {remedy!r}"
        )
        if remedy.startswith(("export it", "place it")):
            own = self.own or self.hardware
            placement = self.placement and "without --placement" not in remedy
            replace(self, own=own.with_values(values), placement=placement).run()
            return
        # A placement is of one allocation, so that another one has none.
        hardware = (self.own or self.hardware).with_values(values)
        call = replace(self, hardware=hardware, own=None, allocation=None, placement=False)
        if remedy.endswith("without --host"):
            call = replace(call, given={**self.given, "host": None})
        if bits is not None:
            same = (int(bits[1]), int(bits[2]))
            network = self.network.with_bits(
                dict.fromkeys((stage.name for stage in call.network.stages), same)
            )
            call = replace(call, network=network)
        given = {**call.given, **{name: options[name] for name in ("mapping", "crossbar") if name in options}}
        if limit is not None:
            given["at_most"] = {**given["at_most"], limit[1]: float(limit[2])}
        if target is not None:
            (name,) = (name for name in given if name.startswith("target"))
            number = float(target[1])
            given[name] = int(number) if name in ("target", "target_interval") else number
        arrays = int(options["arrays"]) if "arrays" in options else self.arrays
        replace(call, given=given, arrays=arrays).run()


def reload(call: Call) -> None:
    values = {"write.write_ns_per_row": 10.0, "timing.step_ns": 10.0}
    given = {
        name: value for name, value in values.items() if name.partition(".")[0] not in call.hardware.to_dict()
    }
    hardware = call.hardware.with_values(given)
    assert rramalloc.optimize_reload(call.network, call.arrays, hardware=hardware, work=4).segments


def listed(call: Call) -> None:
    given = {} if call.own is None else {"hardware": call.own}
    tools = rramalloc.export_check(call.network, call.allocation, **given).tools
    assert {"csv", "json"} <= {tool.name for tool in tools if tool.taken}
    assert next(tool for tool in tools if tool.name == call.tool).reason


def to_tables(call: Call) -> None:
    for tool in ("csv", "json"):
        replace(call, tool=tool).run()


RELOAD = "--reload to write and run the layers in segments"
LITERALLY: dict[str, Callable[[Call], None]] = {
    "leave out --copies": lambda call: replace(call, given={**call.given, "copies": None}).run(),
    RELOAD: reload,
    f"{RELOAD} (needs [write] in the hardware file)": reload,
    f"{RELOAD} (needs [write] and [timing] in the hardware file)": reload,
    "allocate with this --hardware, which keeps to its chips": lambda call: replace(
        call, hardware=call.own or call.hardware, own=None, allocation=None, arrays=None
    ).run(),
    "export to json or csv": to_tables,
    "use --to csv or json": to_tables,
    "leave --placement out": lambda call: replace(call, placement=False).run(),
    LISTED: listed,
}
"""What to do where a remedy is no value of an option or of the hardware file."""


def machine(**values: Any) -> Hardware:
    """32 x 32 cells of 2 bits, weights of 4 bits in two columns, a step of 10 ns."""
    document: dict[str, Any] = {
        "crossbar": {"wordlines": 32, "bitlines": 32, "cell_bits": 2},
        "precision": {"weight_bits": 4, "input_bits": 8, "output_bits": 8, "signed": "offset"},
        "timing": {"step_ns": 10.0},
    }
    return Hardware.model_validate(document).with_values(
        {name.replace("__", "."): v for name, v in values.items()}
    )


CHAIN = network(
    conv("c1", "x", 12),
    conv("c2", "c1", 20),
    of("maxpool", "p", "c2", kernel=2, stride=2),
    conv("c3", "p", 24),
    of("flatten", "f", "c3"),
    of("linear", "fc", "f", out_features=10),
)
"""With `machine`: 1, 8 and 12 arrays a copy, 64, 64 and 16 windows, a pooling and a classifier."""
CHIP = {"chip__arrays_per_tile": 4, "chip__tiles": [2, 3], "chip__chips": [1, 1]}
SMALL = {**CHIP, "chip__tiles": [1, 2]}
STORED = {"counting__groups": "dense", "counting__classifiers": "stored", "counting__row_blocks": "first_fit"}
MEMORY = {"memory__bandwidth_gb_s": 4.0, "memory__reuse": "row", "memory__scope": "shared"}
OWN = {
    "timing__step_ns": None,
    "timing__read_ns": 2.0,
    "timing__dac_bits": 2,
    "timing__rows_per_read": 16,
    "timing__clock": "own",
}
SDK = {"mapping": "sdk"}


Errors = type[RramallocError] | tuple[type[RramallocError], ...]


def check(call: Call, error: Errors, words: str) -> None:
    """Every remedy of the error that a call ends in is in the message, and helps."""
    with pytest.raises(error) as caught:
        call.run()
    remedies = caught.value.remedies  # type: ignore[attr-defined]
    assert remedies
    told = caught.value.on_terminal
    assert re.search(words, told)
    if isinstance(caught.value, BudgetError) and caught.value.reload is not None:
        remedies = [
            *remedies,
            next(each for each in LITERALLY if each.startswith(RELOAD) and f"{each}\n" in told),
        ]
    for remedy in remedies:
        assert remedy in told
        if remedy.startswith("no number of arrays"):
            with pytest.raises(TargetError, match="no number of arrays helps"):
                replace(call, arrays=2**30).run()
        else:
            call.follow(remedy)


BUDGETS: dict[str, tuple[Call, str]] = {
    "budget": (Call(CHAIN, machine(), 10), "--arrays 21, or --crossbar 64x64"),
    "layers": (Call(CHAIN, machine(), 2), "--arrays 21"),
    "modes": (Call(CHAIN, machine(), 10, SDK), "--arrays 21"),
    "copies": (Call(CHAIN, machine(), 22, {"copies": {"c1": 3}}), "--arrays 23, or leave out --copies"),
    "chip": (Call(CHAIN, machine(**SMALL)), r"chips = \[1, 3\] and --arrays 21"),
    "a budget beyond the chip": (Call(CHAIN, machine(**SMALL), 100), r"chips = \[1, 3\], or"),
    "copies on a chip": (
        Call(CHAIN, machine(**CHIP), 24, {"copies": {"c2": 4}}),
        r"chips = \[1, 2\] and --arrays 45",
    ),
    "tiles of a layer": (Call(CHAIN, machine(**SMALL, chip__sharing="layer")), r"chips = \[1, 3\]"),
    "classifiers": (Call(CHAIN, machine(**CHIP, **STORED)), "chips = "),
    "writing": (Call(CHAIN, machine(write__write_ns_per_row=5.0), 10), "or --reload"),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_budgets(name: str) -> None:
    call, words = BUDGETS[name]
    check(call, BudgetError, words)


ENERGY = {"energy__read_pj": 2.0, "energy__leakage_mw": 0.1, "energy__area_um2": 50.0}
LIMITS: dict[str, tuple[Call, str]] = {
    "area": (
        Call(CHAIN, machine(**ENERGY), 60, {"at_most": {"area_um2": 900.0}}),
        "; --at-most area_um2=1050",
    ),
    "latency": (
        Call(CHAIN, machine(), 30, {"at_most": {"latency_ns": 300.0}}),
        "--at-most lat.* or --arrays",
    ),
    "interval": (
        Call(CHAIN, machine(), 30, {"at_most": {"interval_ns": 90.0}}),
        "--at-most int.* or --arrays",
    ),
    "interval on a chip": (
        Call(CHAIN, machine(**CHIP), 24, {"at_most": {"interval_ns": 90.0}}),
        r"--at-most int.* or \[chip\] chips = \[1, \d\] and --arrays",
    ),
    "fewest arrays": (
        Call(CHAIN, machine(**ENERGY), 30, {"at_most": {"latency_ns": 300.0}, "objective": "arrays"}),
        "--at-most lat.* or --arrays",
    ),
    "energy": (Call(CHAIN, machine(**ENERGY), 60, {"at_most": {"energy_pj": 500.0}}), "energy_pj of at most"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name: str) -> None:
    call, words = LIMITS[name]
    check(call, (LimitError, TargetError), words)


ENOUGH = r"\d+ arrays are enough: --arrays \d+, or give a target of"
MORE_CHIPS = r"\d+ arrays are enough: \[chip\] chips = \[1, \d+\] and --arrays \d+"
NO_NUMBER = "no number of arrays helps"
TARGETS: dict[str, tuple[Call, str]] = {
    "steps": (Call(CHAIN, machine(), 30, {"target": 30}), ENOUGH),
    "no number": (Call(CHAIN, machine(), 30, {"target": 2}), NO_NUMBER),
    "ns": (Call(CHAIN, machine(), 30, {"target_ns": 300.0}), ENOUGH),
    "modes": (Call(CHAIN, machine(), 30, {"target": 30, **SDK}), ENOUGH),
    "memory": (Call(CHAIN, machine(**MEMORY), 22, {"target_ns": 2700.0}), ENOUGH),
    "memory, no number": (Call(CHAIN, machine(**MEMORY), 30, {"target_ns": 500.0}), NO_NUMBER),
    "own clocks": (Call(CHAIN, machine(**OWN), 30, {"target_ns": 400.0}), ENOUGH),
    "interval": (Call(CHAIN, machine(), 30, {"target_interval": 10}), ENOUGH),
    "interval in ns": (Call(CHAIN, machine(), 30, {"target_interval": "100ns"}), "cannot be met"),
    "copies": (
        Call(CHAIN, machine(), 30, {"target_interval": 10, "copies": {"c2": (1, 4)}}),
        "no number of arrays helps, as 'c2' alone takes 16 steps",
    ),
    "throughput": (Call(CHAIN, machine(), 30, {"target_throughput": 1e7}), ENOUGH),
    "throughput with memory": (Call(CHAIN, machine(**MEMORY), 30, {"target_throughput": 6e5}), ENOUGH),
    "chip": (Call(CHAIN, machine(**CHIP), None, {"target": 30}), MORE_CHIPS),
    "interval on a chip": (Call(CHAIN, machine(**CHIP), None, {"target_interval": 10}), MORE_CHIPS),
    "tiles of a layer": (
        Call(CHAIN, machine(**CHIP, chip__sharing="layer"), None, {"target": 40}),
        MORE_CHIPS,
    ),
}


@pytest.mark.parametrize("name", TARGETS)
def test_targets(name: str) -> None:
    call, words = TARGETS[name]
    check(replace(call, given={**call.given, "objective": "arrays"}), TargetError, words)


def test_blocks_that_take_more_arrays_than_all_copies_of_a_window_reach_a_target() -> None:
    """As in the tests of explain: block 2 x 1 takes 4 arrays and 20 ns, copies of a window 2 and 24 ns."""
    values: dict[str, Any] = {"crossbar__wordlines": 8, "crossbar__bitlines": 4, "crossbar__cell_bits": 4}
    values |= {"memory__bandwidth_gb_s": 1.0, "memory__reuse": "none", "memory__scope": "per_layer"}
    values["timing__step_ns"] = 1.0
    net = network(conv("a", "x", 4, [2, 1], pads=0), shape=(4, 3, 1))
    given = {"target_ns": 20.0, "objective": "arrays", **SDK}
    check(
        Call(net, machine(**values), 1, given),
        TargetError,
        "4 arrays are enough: --arrays 4, or give a target",
    )


LARGE = machine(**{**CHIP, "chip__tiles": [4, 8]})
OF_LAYERS = {
    "chip__arrays_per_tile": 5,
    "chip__tiles": [1, 5],
    "chip__chips": [1, 1],
    "chip__sharing": "layer",
}
NARROW = {"crossbar__bitlines": 16}
TILES: dict[str, tuple[Call, str]] = {
    "chip": (Call(CHAIN, machine(), 60, own=machine(**CHIP)), r"allocate with this .* chips = \[1, 3\]"),
    "too small a chip": (
        Call(CHAIN, machine(), 60, own=machine(**SMALL)),
        r": place it on .* chips = \[1, 8\]",
    ),
    "tiles of a layer": (
        Call(CHAIN, machine(), 24, own=machine(**OF_LAYERS)),
        r'layer takes tiles of its own .* sharing = "free"',
    ),
    "row blocks": (
        Call(
            CHAIN, machine(**NARROW), 42, own=machine(**{**CHIP, "chip__tiles": [1, 11]}, **STORED, **NARROW)
        ),
        'row_blocks = "anywhere"',
    ),
}


@pytest.mark.parametrize("name", TILES)
def test_tiles(name: str) -> None:
    call, words = TILES[name]
    check(replace(call, placed=True).allocated(), CapacityError, words)


SIGNED = {"precision__signed": "differential"}
WIDE = network(conv("c1", "x", 300, 1), of("flatten", "f", "c1"), of("linear", "fc", "f", out_features=10))
KERNEL = network(
    conv("c1", "x", 4, 7, pads=3), of("flatten", "f", "c1"), of("linear", "fc", "f", out_features=10)
)
JOINED = network(
    conv("c1", "x", 8), conv("c2", "c1", 8), of("concat", "c", "c1", "c2"), conv("c3", "c", 8, 1)
)
SLIM = network(conv("c1", "x", 8), of("flatten", "f", "c1"), of("linear", "fc", "f", out_features=5))
BITS = CHAIN.with_bits({"c1": (8, 8)})
EXPORTS: dict[str, tuple[Call, str]] = {
    "mnsim": (
        Call(CHAIN, machine(**{**CHIP, "chip__tiles": [3, 8]}), tool="mnsim"),
        r'slices = "arrays" and \[chip\] sharing = "layer" .* --mapping whole_kernel and --arrays \d+$',
    ),
    "mnsim, two polarities": (
        Call(CHAIN, machine(**{**CHIP, "chip__tiles": [5, 6]}, **SIGNED), tool="mnsim"),
        r'slices = "arrays", polarities = "arrays"',
    ),
    "mnsim, tiles of odd sizes": (
        Call(CHAIN, machine(**{**CHIP, "chip__tiles": [4, 4], "chip__arrays_per_tile": 5}), tool="mnsim"),
        "arrays_per_tile = 4",
    ),
    "mnsim, modes on a chip": (Call(CHAIN, LARGE, given=SDK, tool="mnsim"), "'sdk' has .* whole_kernel"),
    "mnsim, modes": (
        Call(CHAIN, machine(), 60, SDK, tool="mnsim"),
        "allocate with --mapping im2col, or export to json",
    ),
    "mnsim, modes on too small a chip": (
        Call(CHAIN, machine(**CHIP), given=SDK, tool="mnsim"),
        r"chips = \[1, 4\] in the hardware file and allocate with --mapping whole_kernel",
    ),
    "mnsim, kernel": (Call(KERNEL, machine(), 60, tool="mnsim"), "--crossbar 64x64$"),
    "mnsim, no layer": (Call(JOINED, machine(), 60, tool="mnsim"), "no layer for 'concat'"),
    "modes of what is refused": (Call(JOINED, machine(), 60, SDK, tool="mnsim"), "no layer for 'concat'"),
    "bits": (Call(BITS, machine(), 60, tool="pimcomp"), "other bits .* same weight_bits .* json or csv"),
    "bits of what is refused": (
        Call(SLIM.with_bits({"c1": (8, 8)}), machine(), 60, tool="neurosim"),
        "lists the tools",
    ),
    "pimcomp": (
        Call(CHAIN, machine(**{**CHIP, "chip__tiles": [3, 8]}), tool="pimcomp"),
        r'chips = \[1, 2\], or set .* row_blocks = "first_fit" .* --mapping im2col and --arrays \d+$',
    ),
    "pimcomp, modes on a chip": (Call(CHAIN, LARGE, given=SDK, tool="pimcomp"), "'sdk' has .* im2col"),
    "pimcomp, wide layer": (
        Call(WIDE, machine(**{**CHIP, "chip__tiles": [9, 9]}), 40, tool="pimcomp"),
        r"\[chip\] arrays_per_tile = 19, or set \[counting\]",
    ),
    "pimcomp, modes of a wide layer": (
        Call(WIDE, machine(**{**CHIP, "chip__tiles": [3, 9]}), 40, SDK, tool="pimcomp"),
        r"arrays_per_tile = 19, chips = \[1, 2\] in the hardware file and allocate",
    ),
    "pimcomp, wide weights": (
        Call(CHAIN, machine(crossbar__bitlines=2, crossbar__cell_bits=1), 2000, tool="pimcomp"),
        "one takes 4 bitlines, an array has 2: allocate with --crossbar",
    ),
    "pimsyn": (Call(CHAIN, machine(), 60, tool="pimsyn"), "--crossbar 128x128, or .* --crossbar 512x512"),
    "host": (
        Call(CHAIN, LARGE, given={"host": ["c2"]}, tool="mnsim"),
        "--arrays [0-9]+ without --host, or export to",
    ),
    "host without a chip": (
        Call(CHAIN, machine(), 60, {"host": ["c2"]}, tool="mnsim"),
        "allocate without --host",
    ),
    "host and modes": (
        Call(CHAIN, machine(), 60, {"host": ["c2"], **SDK}, tool="mnsim"),
        "im2col without --host, or",
    ),
    "pimsyn, modes": (
        Call(CHAIN, machine(), 60, SDK, tool="pimsyn"),
        "allocate with --mapping im2col and --crossbar 128x128",
    ),
    "neurosim": (Call(SLIM, machine(), 60, tool="neurosim"), "allocate with --crossbar"),
    "neurosim, branches": (Call(JOINED, machine(), 60, tool="neurosim"), "reads chains only"),
    "placement": (Call(CHAIN, LARGE, tool="neurosim", placement=True), "leave --placement out"),
    "modes of layers with bits": (
        Call(BITS, machine(), 60, SDK, tool="mnsim"),
        r"weight_bits and input_bits \(8 and 8\) and allocate with --mapping im2col, or export to json",
    ),
    "modes of layers with bits on a chip": (
        Call(BITS, machine(**CHIP), given=SDK, tool="pimcomp"),
        r"\(8 and 8\) and set .* --mapping im2col and --arrays \d+, or export to json",
    ),
    "host and bits": (
        Call(BITS, machine(), 60, {"host": ["c1"]}, tool="mnsim"),
        r"\(8 and 8\) and allocate without --host, or export to json or csv",
    ),
    "host and bits on a chip": (
        Call(BITS, LARGE, given={"host": ["c1"]}, tool="pimcomp"),
        r"\(8 and 8\) and set .* without --host, or export to",
    ),
    "bits and few arrays": (
        Call(BITS, machine(), 22, tool="pimcomp"),
        r"\(8 and 8\) and allocate with --arrays \d+, or",
    ),
    "bits on too small a chip": (
        Call(BITS, machine(**CHIP), tool="mnsim"),
        r"\(8 and 8\) and set .* json or csv",
    ),
    "neurosim, whole kernels": (
        Call(
            SLIM,
            machine(crossbar__wordlines=128, crossbar__bitlines=16),
            given={"mapping": "whole_kernel"},
            arrays=40,
            tool="neurosim",
        ),
        "lists the tools",
    ),
    "neurosim, few arrays": (
        Call(
            CHAIN,
            machine(crossbar__wordlines=64, crossbar__bitlines=8, **MEMORY),
            40,
            {"mapping": "whole_kernel"},
            tool="neurosim",
        ),
        "--crossbar 32x8 and --arrays 65$",
    ),
    "neurosim, few arrays and modes": (
        Call(KERNEL, machine(), 20, SDK, tool="neurosim"),
        "--mapping im2col and --crossbar 4x32 and --arrays 37$",
    ),
    "neurosim, held copies": (
        Call(
            CHAIN,
            machine(crossbar__wordlines=64, crossbar__bitlines=16, **SIGNED),
            40,
            {"copies": {"c1": 2}},
            tool="neurosim",
        ),
        "--crossbar 32x16 and --arrays 62$",
    ),
    "neurosim, a full chip": (
        Call(KERNEL, machine(**CHIP), tool="neurosim"),
        "lists the tools",
    ),
    "mnsim, kernel on a chip": (
        Call(KERNEL, machine(**CHIP, **SIGNED), given=SDK, tool="mnsim"),
        "--arrays \\d+ and --crossbar 64x64$",
    ),
    "pimsyn, few arrays": (
        Call(CHAIN, machine(crossbar__wordlines=512, crossbar__bitlines=256), 3, tool="pimsyn"),
        "--crossbar 128x128 and --arrays",
    ),
    "placement on too small a chip": (
        Call(CHAIN, machine(**{**CHIP, "chip__tiles": [3, 8]}), tool="pimcomp", placement=True),
        r"export it without --placement and with a --hardware of \[chip\] chips = \[1, 2\], or set",
    ),
    "placement of what is refused": (Call(CHAIN, LARGE, tool="pimsyn", placement=True), "--crossbar 128x128"),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_exports(name: str) -> None:
    call, words = EXPORTS[name]
    check(call.allocated(), UnsupportedError, words)


def test_a_row_block_wider_than_a_tile() -> None:
    """Layer c1 of 300 columns of weights in two cells: 19 arrays of 32 columns side by side."""
    call = Call(WIDE, machine(**{**CHIP, "chip__tiles": [20, 20]}, **STORED))
    with pytest.raises(
        SpecError, match=r"one tile of 4: write \[chip\] arrays_per_tile = 19, or more"
    ) as caught:
        call.run()
    call.follow(caught.value.on_terminal)


def test_placing_without_a_chip() -> None:
    """Tiles of the hardware file, or a preset that has them."""
    call = Call(CHAIN, machine(), 30, placed=True).allocated()
    with pytest.raises(
        SpecError, match=r"has no \[chip\]: .* give arrays_per_tile, tiles and chips there, or use"
    ):
        call.run()
    replace(call, own=machine(**{**CHIP, "chip__tiles": [3, 4]})).run()
    replace(call, own=rramalloc.load_hardware("isaac")).run()
