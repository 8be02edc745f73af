"""Write results for the user: data on stdout in the format asked for, notes on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import typer

from rramalloc.cli.parameters import Format
from rramalloc.errors import UnknownNameError
from rramalloc.files import to_json
from rramalloc.units import printable
from rramalloc.view.terminal import print_view
from rramalloc.view.text import csv_of, latex_of, markdown_of
from rramalloc.view.view import busy_period, with_columns
from rramalloc.view.width import width_of, wrapped

if TYPE_CHECKING:
    from rramalloc.records import Record
    from rramalloc.result import Result
    from rramalloc.view.view import View

_TEXTS = {"csv": csv_of, "markdown": markdown_of}
"""Function that writes the text of a view, by the name of the format."""


NOTHING: Mapping[str, Any] = MappingProxyType({})


def deliver(
    result: Result,
    given: Mapping[str, Any],
    figure: str = "",
    known: Mapping[str, Any] = NOTHING,
    also: Iterable[Callable[[], object]] = (),
    **drawn: Any,
) -> None:
    """Save, draw and print a result as the options of its command ask, with its warnings.

    given: the options by name; figure: the chart that --figure draws; known: what the view takes beyond the
    result; also: what writes other files; drawn: what the chart takes.
    """

    def draw() -> None:
        getattr(result.plot, figure)(save=given["figure"], width=given.get("figure_width"), **drawn)

    writes = [*also]
    if given.get("output") is not None:
        writes.append(partial(result.save, given["output"]))
    if figure and given.get("figure") is not None:
        writes.append(draw)
    with written(writes):
        view = result.view(**known)
        if given.get("columns"):
            view = with_columns(view, names_of(given["columns"]), busy_period(result)[0])
        if given["output_format"] == "json":
            print_json(result.to_dict())
        else:
            latex = {"caption": given.get("caption"), "name": given.get("label")}
            latex["si"] = not given.get("plain_units", True)
            print_view_as(view, given["output_format"], quiet=given["quiet"], **latex)
        for text in view.notes:
            note(text, quiet=given["quiet"])


@contextmanager
def written(writes: Iterable[Callable[[], object]]) -> Iterator[None]:
    """Write files, let the block print the answer, then raise the first error of the files.

    Files come first, since a reader of stdout may stop early; none takes the answer or another file along.
    """
    errors: list[Exception] = []
    for write in writes:
        try:
            write()
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not take the answer along
            errors.append(error)
    is_printed = False
    try:
        yield
        sys.stdout.flush()
        is_printed = True
    finally:
        for untold in errors[1:] if is_printed else errors:
            note(f"error: {untold}")
    if errors:
        raise errors[0]


def names_of(text: str) -> list[str]:
    """Return the names between commas."""
    return [name.strip() for name in text.split(",")]


def check_columns(text: str | None, rows: type[Record], *more: str) -> None:
    """Raise UnknownNameError before the work for columns that rows do not have; more: of their view alone."""
    check_names(text, (*rows.model_fields, *more))


def check_names(text: str | None, known: Iterable[str]) -> None:
    """Raise UnknownNameError before the work for columns that there are not."""
    known = [*known]
    for name in names_of(text) if text is not None else ():
        if name not in known:
            raise UnknownNameError("column", name, known)


def print_view_as(view: View, output_format: Format, *, quiet: bool = False, **latex: Any) -> None:
    """Print the tables and facts of a view; a note names the columns for which a terminal is too narrow.

    latex: what LaTeX takes besides.
    """
    if output_format == "latex":
        sys.stdout.write(latex_of(view, **latex))
        return
    if output_format in _TEXTS:
        sys.stdout.write(_TEXTS[output_format](view))
        return
    printed = print_view(view, width_of(sys.stdout))
    sys.stdout.write(printed.text)
    sys.stdout.flush()
    for line in filter(None, printed.hidden.split("\n")):
        note(line, quiet=quiet)


def print_json(document: object) -> None:
    """Print one JSON document on stdout."""
    sys.stdout.write(to_json(document))


def print_text(text: str) -> None:
    """Print a line on stdout; in a terminal that is too narrow it goes on below."""
    typer.echo(wrapped(text, width_of(sys.stdout)))


def note(text: str, *, quiet: bool = False) -> None:
    """Print a message on stderr."""
    if not quiet:
        typer.echo(wrapped(printable(text), width_of(sys.stderr)), err=True)


def warn(warnings: Iterable[str], *, quiet: bool = False) -> None:
    """Print the warnings of a result on stderr, one a line."""
    for warning in warnings:
        note(f"warning: {warning}", quiet=quiet)
