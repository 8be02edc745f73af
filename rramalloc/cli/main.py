"""Entry point of the command `rramalloc`: registers the commands, turns errors into messages."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import typer

from rramalloc.cli import EXIT_CANNOT_SERVE, EXIT_INTERRUPTED
from rramalloc.cli.catalogue import networks, presets, schema
from rramalloc.cli.group import Command, Group
from rramalloc.cli.output import note
from rramalloc.cli.parameters import Help, described
from rramalloc.commands.chiplet import command as chiplet_commands
from rramalloc.commands.compare.command import COMPARE, compare
from rramalloc.commands.convert.command import CONVERT, convert
from rramalloc.commands.evaluate.command import EVALUATE, ManyFiles, evaluate
from rramalloc.commands.explain.command import EXPLAIN, explain
from rramalloc.commands.export.command import EXPORT, export
from rramalloc.commands.fold.command import FOLD, fold
from rramalloc.commands.inspect.command import inspect
from rramalloc.commands.latency import command as latency_commands
from rramalloc.commands.optimize.command import OPTIMIZE, optimize
from rramalloc.commands.pareto.command import PARETO, pareto
from rramalloc.commands.place.command import PLACE, place
from rramalloc.commands.report.command import REPORT, report
from rramalloc.commands.simulate.command import SIMULATE, simulate
from rramalloc.commands.size.command import SIZE, size
from rramalloc.commands.sweep.command import SWEEP, sweep
from rramalloc.commands.tune.command import TUNE, tune
from rramalloc.commands.verify.command import VERIFY, verify
from rramalloc.errors import RramallocError
from rramalloc.files import limit_reached

app = typer.Typer(
    name="rramalloc",
    help="Crossbar allocation for memristor (RRAM) CNN accelerators: how often to store every layer so that "
    "inference is fastest, and how far from optimal that can be at most.\n\n"
    "Example: rramalloc optimize vgg16 --arrays 1024",
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "color": False},
)


def _add(command: Callable[..., None], words: Help, kind: type[Command] = Command) -> None:
    """Register a command by the name of its function, in the order of the help."""
    app.command(cls=kind)(described(command, words))


_add(optimize, OPTIMIZE)
_add(inspect, {})
_add(simulate, SIMULATE)
_add(explain, EXPLAIN)
_add(compare, COMPARE)
_add(pareto, PARETO)
_add(sweep, SWEEP)
_add(size, SIZE)
_add(tune, TUNE)
_add(evaluate, EVALUATE, ManyFiles)
_add(fold, FOLD)
app.add_typer(latency_commands.app, name="latency")
_add(place, PLACE)
_add(verify, VERIFY)
_add(export, EXPORT)
app.add_typer(chiplet_commands.app, name="chiplet")
_add(report, REPORT)
_add(convert, CONVERT)
_add(networks, {})
_add(presets, {})
_add(schema, {})


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Show the version and exit."),
) -> None:
    if version:
        from rramalloc.version import __version__

        typer.echo(f"rramalloc {__version__}")
        raise typer.Exit


@cache
def _command() -> Any:
    """Return the commands as click runs them: made once for all calls in a process."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line; exit code 0 done, 1 cannot be served, 2 wrong usage, 130 interrupted."""
    debug = "--debug" in sys.argv[1:]
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    _speak_utf8()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # none are used; at a limit of threads it sends Ctrl-C
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")  # its colours end in a stray code
    try:
        try:
            _command()(args=arguments, prog_name="rramalloc")
        finally:
            sys.stdout.flush()
    except RramallocError as error:
        _fail(str(error), error, debug=debug)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        _close_stdout()  # nobody reads on: no message
        sys.exit(EXIT_CANNOT_SERVE)
    except OSError as error:
        words = limit_reached(error) or f"cannot write the result: {(error.strerror or str(error)).lower()}"
        _close_stdout()
        _fail(words, error, debug=debug)
    except MemoryError as error:
        _fail("out of memory: use a smaller network, input shape or budget", error, debug=debug)
    except Exception as error:  # noqa: BLE001 - the last resort: a message instead of a traceback
        words = "internal error, please report it with the output of --debug"
        _fail(limit_reached(error) or f"{words}: {type(error).__name__}: {error}", error, debug=debug)


def _speak_utf8() -> None:
    """Write results in UTF-8 wherever they go; a terminal that cannot show a character gets a mark
    instead."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")


def _close_stdout() -> None:
    """Send buffered output nowhere, so that the interpreter does not complain at its end."""
    with suppress(OSError):  # too many open files
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, error: BaseException, *, debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exception(error)
    for line in f"error: {message}".split("\n"):
        note(line)
    sys.exit(EXIT_CANNOT_SERVE)
