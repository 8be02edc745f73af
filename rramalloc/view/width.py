"""Width of a terminal, and texts that keep to it; pipes and files have no width."""

from __future__ import annotations

import os
from typing import TextIO

_USUAL = 80
"""Columns of a terminal that does not report its width."""
_DIGITS = 6  # longest COLUMNS that is believed: no terminal has a million columns


def width_of(stream: TextIO) -> int | None:
    """Return the columns of the terminal that `stream` goes to, or those in COLUMNS; None for a pipe or a
    file."""
    if not stream.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and len(columns) <= _DIGITS and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL
    except (OSError, ValueError):
        return _USUAL


def shortened(text: str, columns: int) -> str:
    """Return the text cut to `columns` columns: prose loses its end, a name its middle."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= columns:
        return text
    tail = 0 if " " in text else (columns - 1) // 2
    head = set_cell_size(text, max(columns - 1 - tail, 0))
    return head + "…" + set_cell_size(text[::-1], tail)[::-1]


def wrapped(text: str, columns: int | None, indent: int = 0) -> str:
    """Return the text in lines of at most `columns` columns, broken between words; None: one line.

    indent: columns that stand before its first line, and before the others as spaces.
    """
    if columns is None:
        return text
    from rich.cells import cell_len

    if cell_len(text) + indent <= columns:
        return text
    room = max(columns - indent, 1)
    lines = [""]
    for word in text.split(" "):
        line = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(line) <= room:
            lines[-1] = line
        else:
            lines[-1:] = [*filter(None, lines[-1:]), *_pieces(word, room)]
    return ("\n" + " " * indent).join(lines)


def _pieces(word: str, room: int) -> list[str]:
    """Return the word in pieces that fit, one if it does."""
    from rich.cells import cell_len

    pieces = [""]
    for character in word:
        if pieces[-1] and cell_len(pieces[-1] + character) > room:
            pieces.append("")
        pieces[-1] += character
    return pieces
