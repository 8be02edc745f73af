"""Entry point of the command `rramalloc`: registers the commands, turns errors into messages."""

from __future__ import annotations

import io
import os
import sys

import typer

from rramalloc.cli import (
    EXIT_CANNOT_SERVE,
    EXIT_INTERRUPTED,
    chiplet,
    compare,
    convert,
    evaluate,
    export,
    fold,
    inspect,
    latency,
    networks,
    optimize,
    pareto,
    place,
    presets,
    report,
    schema,
    simulate,
    sweep,
    verify,
)
from rramalloc.cli.group import Command, Group
from rramalloc.cli.output import note
from rramalloc.errors import RramallocError

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
app.command("optimize", cls=Command)(optimize.optimize)
app.command("inspect", cls=Command)(inspect.inspect)
app.command("simulate", cls=Command)(simulate.simulate)
app.command("compare", cls=Command)(compare.compare)
app.command("pareto", cls=Command)(pareto.pareto)
app.command("sweep", cls=Command)(sweep.sweep)
app.command("evaluate", cls=evaluate.ManyFiles)(evaluate.evaluate)
app.command("fold", cls=Command)(fold.fold)
app.add_typer(latency.app, name="latency")
app.command("place", cls=Command)(place.place)
app.command("verify", cls=Command)(verify.verify)
app.command("export", cls=Command)(export.export)
app.add_typer(chiplet.app, name="chiplet")
app.command("report", cls=Command)(report.report)
app.command("convert", cls=Command)(convert.convert)
app.command("networks", cls=Command)(networks.networks)
app.command("presets", cls=Command)(presets.presets)
app.command("schema", cls=Command)(schema.schema)


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Show the version and exit."),
) -> None:
    if version:
        from rramalloc.version import __version__

        typer.echo(f"rramalloc {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; exit code 0 done, 1 cannot be served, 2 wrong usage, 130 interrupted."""
    debug = "--debug" in sys.argv[1:]
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    _speak_utf8()
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")  # its colours end in a stray code
    try:
        try:
            app(args=arguments, prog_name="rramalloc")
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
        _close_stdout()
        _fail(f"cannot write the result: {(error.strerror or str(error)).lower()}", error, debug=debug)
    except MemoryError as error:
        _fail("out of memory: use a smaller network, input shape or budget", error, debug=debug)
    except Exception as error:  # noqa: BLE001 - the last resort: a message instead of a traceback
        told = f"internal error, please report it with the output of --debug: {type(error).__name__}: {error}"
        _fail(told, error, debug=debug)


def _speak_utf8() -> None:
    """Results are UTF-8 wherever they go; a terminal that cannot show a character gets a mark instead."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")


def _close_stdout() -> None:
    """What is still buffered goes nowhere, so that the interpreter does not complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, error: BaseException, *, debug: bool) -> None:
    if debug:
        import traceback

        traceback.print_exception(error)
    for line in f"error: {message}".split("\n"):
        note(line)
    sys.exit(EXIT_CANNOT_SERVE)
