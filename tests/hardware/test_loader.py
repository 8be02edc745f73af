"""Hardware files and names: complete, incomplete, wrong and hostile ones."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import rramalloc
from rramalloc.errors import BudgetError, FileError, SpecError, UnknownNameError
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.hardware.tables import Crossbar, Memory, parse_crossbar

pytestmark = pytest.mark.quick

TABLES: dict[str, dict[str, str]] = {
    "": {"name": '"mine"', "source": '"bench"'},
    "crossbar": {"wordlines": "64", "bitlines": "32", "cell_bits": "2"},
    "precision": {"weight_bits": "8", "input_bits": "8", "output_bits": "8", "signed": '"offset"'},
    "timing": {"read_ns": "100", "dac_bits": "1", "adc_ns": "1.5", "columns_per_adc": "8"},
    "memory": {"bandwidth_gb_s": "128", "reuse": '"row"', "scope": '"shared"'},
    "chip": {
        "arrays_per_tile": "96",
        "straddle": "true",
        "tiles": "[16, 8]",
        "chips": "[1, 1]",
        "hop_ns_tile": "1",
        "hop_ns_chip": "10.0",
        "bandwidth_tile_gb_s": "32.0",
        "bandwidth_chip_gb_s": "12.8",
    },
}


def written(path: Path, table: str = "", field: str = "", value: str | None = None) -> Path:
    """A complete file with one value replaced; None leaves the field out."""
    lines = []
    for name, fields in TABLES.items():
        lines += [f"[{name}]"] if name else []
        changed = fields | {field: value} if name == table and field else fields
        lines += [f"{key} = {text}" for key, text in changed.items() if text is not None]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_complete_file(tmp_path: Path) -> None:
    hardware = load_hardware(written(tmp_path / "mine.toml"))
    assert hardware.crossbar == Crossbar(wordlines=64, bitlines=32, cell_bits=2)
    assert hardware.memory == Memory(bandwidth_gb_s=128.0, reuse="row", scope="shared")
    assert hardware.chip is not None
    assert hardware.chip.tiles == (16, 8)
    assert hardware.chip.hop_ns_tile == 1.0


def test_straddle_is_gone(tmp_path: Path) -> None:
    """`true` says nothing and is not written again; `false` names what is nearest."""
    path = written(tmp_path / "mine.toml")
    path.write_text('unconfirmed = ["chip.straddle", "chip.tiles"]\n' + path.read_text())
    hardware = load_hardware(path)
    without = load_hardware(written(tmp_path / "other.toml", "chip", "straddle", None))
    assert hardware.to_dict() == without.to_dict() | {"unconfirmed": ["chip.tiles"]}
    gone = r'(?s)chip.straddle.* gone.* sharing = "layer", which is not the same'
    with pytest.raises(SpecError, match=gone):
        load_hardware(written(tmp_path / "mine.toml", "chip", "straddle", "false"))
    with pytest.raises(ValueError, match=gone):
        Hardware.model_validate(without.to_dict() | {"chip": without.to_dict()["chip"] | {"straddle": False}})


def test_a_value_without_effect_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.toml")
    path.write_text(path.read_text() + "\n[energy]\npj_per_byte = 0.5\n")
    with pytest.raises(SpecError, match="pj_per_byte is a part of what read_pj gives"):
        load_hardware(path)


BAD = [
    *(("crossbar", field, value) for field in TABLES["crossbar"] for value in ("0", "-1", "1.0", "true")),
    ("crossbar", "wordlines", "65537"),
    ("crossbar", "bitlines", "65537"),
    ("crossbar", "cell_bits", "65"),
    ("crossbar", "wordlines", '"128"'),
    *(("precision", field, value) for field in ("weight_bits", "input_bits") for value in ("0", "65", "8.0")),
    ("precision", "output_bits", "[]"),
    ("precision", "signed", '"twos_complement"'),
    ("precision", "signed", "true"),
    *(("timing", "read_ns", value) for value in ("0", "-1", "nan", "inf", "1e300", "true", '"100"')),
    ("timing", "adc_ns", "-0.0"),
    ("timing", "dac_bits", "0.5"),
    ("timing", "columns_per_adc", "0"),
    ("memory", "bandwidth_gb_s", "0.0"),
    ("memory", "reuse", '"column"'),
    ("memory", "scope", '"global"'),
    ("chip", "arrays_per_tile", "0"),
    *(("chip", "straddle", value) for value in ("1", "false", '"yes"')),
    *(("chip", "tiles", value) for value in ("[16]", "[16, 8, 1]", "[0, 8]", "[16.0, 8]", "0", '"ab"', "[]")),
    ("chip", "hop_ns_tile", "-1.0"),
    ("chip", "hop_ns_chip", "nan"),
    ("chip", "bandwidth_tile_gb_s", "0"),
    ("", "name", '""'),
    ("", "crossbars", "1"),
    ("timing", "stepns", "1"),
]


@pytest.mark.parametrize(("table", "field", "value"), BAD)
def test_bad_value_is_named(tmp_path: Path, table: str, field: str, value: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_hardware(written(tmp_path / "mine.toml", table, field, value))
    assert f"{table}.{field}".lstrip(".") in str(caught.value)


def test_chip_with_too_many_arrays(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.toml", "chip", "tiles", "[65536, 65536]")
    with pytest.raises(SpecError, match=r"chip: has \d+ arrays in all, the limit is 2147483647"):
        load_hardware(path)


@pytest.mark.parametrize(("spec", "near"), [("isac", "isaac"), ("Puma.toml", "puma")])
def test_unknown_preset_suggests_the_nearest(spec: str, near: str) -> None:
    with pytest.raises(UnknownNameError, match=f"did you mean .*{near}"):
        load_hardware(spec)


def test_missing_file_is_not_taken_for_a_preset(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        load_hardware(tmp_path / "isaac.toml")


@pytest.mark.parametrize(
    ("text", "size"),
    [("128x128", (128, 128)), ("1x65536", (1, 65536)), ("256X64", (256, 64)), (" 8x8\n", (8, 8))],
)
def test_crossbar_size(text: str, size: tuple[int, int]) -> None:
    assert parse_crossbar(text) == size


def test_crossbar_of_a_configuration_with_a_mapping() -> None:
    tiles = SimpleNamespace(max_input_size=256, max_output_size=64)
    assert parse_crossbar(SimpleNamespace(mapping=tiles)) == (256, 64)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "128",
        "128x",
        "x128",
        "128x128x2",
        "0x128",
        "128x65537",
        "-1x8",
        "1.5x8",
        "\u0661\u0662x8",
        "8 x 8",
    ],
)
def test_bad_crossbar_size(text: str) -> None:
    with pytest.raises(SpecError, match=r"128x128|from 1 to 65536"):
        parse_crossbar(text)


def test_a_chip_that_is_too_small_says_how_many_are_needed() -> None:
    """The budget is not what is short: no number of --arrays helps."""
    hardware = load_hardware("isaac")
    assert hardware.chip is not None
    small = hardware.chip.model_copy(update={"tiles": (4, 4), "chips": (1, 1)})
    need = rramalloc.inspect("vgg16", hardware=hardware).minimum
    chips = -(-need // small.arrays)
    with pytest.raises(BudgetError) as caught:
        rramalloc.optimize("vgg16", 10**6, hardware=hardware.model_copy(update={"chip": small}))
    text = caught.value.on_terminal
    assert f"the chips have {small.arrays:,} arrays, {need:,} are needed" in text
    assert f"{chips:,} chips of {small.arrays:,}; " in text
    assert f"[chip] chips = [1, {chips}], or --crossbar 512x512" in text
    assert "or --reload to write and run the layers" in text
    assert "--arrays" not in text
