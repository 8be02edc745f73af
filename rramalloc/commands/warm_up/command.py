"""`rramalloc warm-up`: compile ahead."""

from __future__ import annotations

from rramalloc.cli.output import deliver
from rramalloc.cli.parameters import Format, described


@described({})
def command(*, output_format: Format = "table", output: str | None = None, quiet: bool = False) -> None:
    """Compile all that the commands use, so that no later one does.

    Says how long it took and where the compiled code is. Where all is there, nothing is compiled.

    Example: rramalloc warm-up
    """
    given = locals()
    from rramalloc.commands.warm_up.warm_up import warm_up as run_warm_up

    deliver(run_warm_up(), given)
