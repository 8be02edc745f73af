"""Numbers with units, read and shown."""

from __future__ import annotations

import math

import pytest

from rramalloc.units import _SCALES, amount

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [
        ("10", "s", 10.0),
        ("10s", "s", 10.0),
        (" 1.5 min ", "s", 90.0),
        ("500ms", "s", 0.5),
        ("1e3 us", "s", 1e-3),
        ("2h", "s", 7200.0),
        ("0.3us", "ns", 300.0),
        ("1us", "ns", 1000.0),
        ("1\u00b5s", "ns", 1000.0),
        ("1\u03bcs", "ns", 1000.0),
        ("1e-3s", "ns", 1e6),
        ("750", "ns", 750.0),
        ("1%", "", 0.01),
        ("0.01", "", 0.01),
        (".5 %", "", 0.005),
        ("-1", "", -1.0),
        ("2.5k", "inputs/s", 2500.0),
        ("30", "inputs/s", 30.0),
        ("1e999s", "s", math.inf),
    ],
)
def test_amounts_are_exact(text: str, unit: str, number: float) -> None:
    """The number nearest to the decimal that is written."""
    assert amount(text, unit) == number


@pytest.mark.parametrize("unit", _SCALES)
def test_every_unit_that_a_message_offers_is_taken(unit: str) -> None:
    sizes = {scale: float(size) for scale, size in _SCALES[unit].items()}
    for scale, size in sizes.items():
        assert amount(f"5 {scale}", unit) == pytest.approx(5 * size / sizes[unit])


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("", "s"), ("s", "s"), ("1m", "s"), ("1S", "s"), ("1 s s", "s"), ("nan", "s"), ("inf", "ns"),
        ("1%", "s"), ("1s", ""), ("1_0", "s"), ("\u0661", "s"), ("1e99999", "s"),
    ],
)  # fmt: skip
def test_what_is_no_amount_is_explained(text: str, unit: str) -> None:
    with pytest.raises(ValueError, match=rf"must be a .*5us, got '{text}'" if unit else "must be a share"):
        amount(text, unit)
