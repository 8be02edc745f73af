"""`rramalloc docs`: where the pages of the documentation are."""

from __future__ import annotations

import typer

from rramalloc.cli.parameters import described


@described({})
def command() -> None:
    """Print the folder of the pages of the documentation, which are Markdown files.

    Example: rramalloc docs
    """
    from rramalloc.shipped_files import shipped_folder

    typer.echo(shipped_folder("docs"))
