"""The command group: what it adds to messages about wrong usage, and what Ctrl-C does."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperGroup

from rramalloc.cli import EXIT_INTERRUPTED
from rramalloc.cli.output import note
from rramalloc.errors import suggestion

_WRONG_CHOICE = re.compile(r"'(?P<got>.*)' is not one of (?P<known>'.*')\.?", re.DOTALL)


class Group(TyperGroup):
    """Commands that suggest the nearest choice for a misspelt one, and say so when they are interrupted."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the arguments name."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _with_suggestion(error.message)
            raise
        except KeyboardInterrupt:
            note("interrupted: there is no result yet")
            raise typer.Exit(EXIT_INTERRUPTED) from None


def _with_suggestion(message: str) -> str:
    message = message.removeprefix("Value error, ")
    found = _WRONG_CHOICE.fullmatch(message)
    if found is None:
        return message
    hint = suggestion(found["got"], re.findall(r"'([^']+)'", found["known"]))
    return f"{message.removesuffix('.')}; {hint}" if hint else message
