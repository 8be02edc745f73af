"""Budgets of arrays as a user writes them: numbers, or multiples of the least that a network needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from rramalloc.errors import SpecError
from rramalloc.records import brief

MOST_INPUTS = 10**9  # that stream, or of a loading with --reload: far above any batch
_NUMBER = re.compile(r"[0-9]{1,20}")  # 20 digits hold every budget; longer texts are refused before int()
_MULTIPLE = re.compile(r"[xX][0-9]{1,10}(\.[0-9]{0,9})?")  # "x1.5"; few digits keep the Fraction small
_MOST = 1000  # budgets of one call: each is a search of its own


def budgets(given: int | str | Sequence[int | str], minimum: int | None) -> tuple[int, ...]:
    """Return the budgets in the order given, each once: 2048, "x2" (twice `minimum`), "512,x1.5", or a list.

    A multiple is rounded down; minimum: None where there is none.
    Raises SpecError, also for more than 1000 of them; whether a budget is
    enough is not looked at.

    >>> budgets(["1024", "x2,x1.5"], minimum=902)
    (1024, 1804, 1353)
    """
    items = [given] if isinstance(given, int | str) else list(given)
    texts = [part for item in items for part in (item.split(",") if isinstance(item, str) else [item])]
    if not 1 <= len(texts) <= _MOST:
        raise SpecError("arrays", f"must be from 1 to {_MOST} budgets, got {len(texts)}")
    return tuple(dict.fromkeys(budget(text, minimum) for text in texts))


def budget(given: int | str, minimum: int | None) -> int:
    """Return a budget: a number, or "x2" for twice `minimum`, rounded down. Raises SpecError."""
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    text = given.strip() if isinstance(given, str) else ""
    factor = multiple(text)
    if factor is not None:
        if minimum is None:
            words = f"a hardware with kinds has no minimum, of which {brief(given)} would be a multiple"
            raise SpecError("arrays", f"{words}: give a number, or those of kinds such as small=512,large=64")
        return int(factor * minimum)
    if not _NUMBER.fullmatch(text):
        reason = f"must be a number such as 2048, or x2 for twice the minimum, got {brief(given)}"
        raise SpecError("arrays", reason)
    return int(text)


def multiple(text: str) -> Fraction | None:
    """Return the exact factor in "x1.5"; None if the text is no multiple."""
    return Fraction(text[1:]) if _MULTIPLE.fullmatch(text) else None
