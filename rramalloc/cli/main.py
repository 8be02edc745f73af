"""Entry point of the command `rramalloc`: runs the command of a room, turns errors into messages."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from functools import cache
from importlib.abc import MetaPathFinder
from typing import Any

import typer

from rramalloc.cli import EXIT_CANNOT_SERVE, EXIT_INTERRUPTED
from rramalloc.cli.group import Rooms
from rramalloc.cli.output import note
from rramalloc.errors import RramallocError
from rramalloc.files import limit_reached
from rramalloc.memory import check_memory

_LOADED_BYTES = 256 * 2**20  # of addresses that NumPy, SciPy and numba take; they take 300 MB

app = typer.Typer(
    name="rramalloc",
    help="Crossbar allocation for memristor (RRAM) CNN accelerators: how often to store every layer so that "
    "inference is fastest, and how far from optimal that can be at most.\n\n"
    "Example: rramalloc optimize vgg16 --arrays 1024",
    cls=Rooms,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "color": False},
)


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
    _keep_talk_apart()
    _speak_utf8()
    if not isinstance(sys.meta_path[0], _BeforeNumPy):
        sys.meta_path.insert(0, _BeforeNumPy())
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
    except Exception as error:  # noqa: BLE001 - the last resort: a message instead of a traceback
        words = "internal error, please report it with the output of --debug"
        _fail(limit_reached(error) or f"{words}: {type(error).__name__}: {error}", error, debug=debug)


class _BeforeNumPy(MetaPathFinder):
    """Finds no module, but looks whether memory suffices for NumPy: else its OpenBLAS ends the process."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Raise MemoryError before NumPy is loaded, if memory has a limit that is too low."""
        if fullname == "numpy":
            check_memory(_LOADED_BYTES)


class _Talk(io.FileIO):
    """A stderr whose errors are ignored: text that cannot be written is dropped."""

    def write(self, data: Any, /) -> int:
        """Write bytes, or drop them where the disk is full, or the reader or the terminal is gone."""
        with suppress(OSError):
            return super().write(data) or len(data)
        return len(data)


def _keep_talk_apart() -> None:
    """Let no error of stderr end the work."""
    if isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr is sys.__stderr__:
        end = io.BufferedWriter(_Talk(sys.stderr.fileno(), "wb", closefd=False))
        sys.stderr = io.TextIOWrapper(end, sys.stderr.encoding, sys.stderr.errors, line_buffering=True)


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
