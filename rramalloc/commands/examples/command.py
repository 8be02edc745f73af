"""`rramalloc examples`: files to start from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

import typer

from rramalloc.cli import complete
from rramalloc.cli.output import print_json, print_view_as
from rramalloc.cli.parameters import Format, described
from rramalloc.view.view import View, table


@described({"output": ("DIR", "Write all of them, or the one that is named, into a folder.")})
def command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[EXAMPLE]", autocompletion=complete.examples, help="Print this one."),
    ] = None,
    *,
    output_format: Format = "table",
    output: str | None = None,
) -> None:
    """List the example files of the package: a study, a question of `size`, units, a simulator, a chip.

    Example: rramalloc examples study > study.toml

    Example: rramalloc examples -o examples
    """
    from rramalloc.files import write_folder
    from rramalloc.shipped_files import example_names, example_text

    texts = {known: example_text(known) for known in example_names()}
    if name is not None:
        text = example_text(name)
        texts = {known: content for known, content in texts.items() if content == text}
    if output is not None:
        write_folder(output, texts, lambda folder: _holds_examples(folder, texts))
        return
    if name is not None:
        typer.echo(texts.popitem()[1], nl=False)
        return
    rows = [SimpleNamespace(name=known, shows=_first_words(content)) for known, content in texts.items()]
    if output_format == "json":
        print_json([vars(row) for row in rows])
        return
    shipped = table("Examples", rows, "name, shows")
    print_view_as(View(kind="Examples", title="Examples", tables=(shipped,)), output_format)


def _holds_examples(folder: Path, texts: Mapping[str, str]) -> bool:
    """Return True if a folder holds nothing but these files, unchanged."""
    paths = list(folder.iterdir())
    known = all(path.is_file() and path.name in texts for path in paths)
    return known and all(path.read_bytes() == texts[path.name].encode() for path in paths)


def _first_words(text: str) -> str:
    """Return the first comment or the docstring of an example, "" for a file that has none."""
    first = text.split("\n", 1)[0]
    return first.strip('#" ') if first[:1] in ("#", '"') else ""
