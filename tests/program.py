"""Commands in this process, which saves the start of an interpreter for each."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

from rramalloc.cli.main import main


class Outcome(NamedTuple):
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[dict[str, str]]:
        """The rows of a CSV table."""
        return list(csv.DictReader(io.StringIO(self.out)))


Run = Callable[..., Outcome]


def run(*arguments: object) -> Outcome:
    """Run a command."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", ["rramalloc", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Outcome(code, out.getvalue(), err.getvalue())
