"""The command `rramalloc`: prepared for Ctrl-C and closed streams before anything slow is imported."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path:  # `python -m` put the working folder first
    sys.path[:] = [*sys.path[1:], os.path.dirname(os.path.dirname(__file__))]

import errno
import signal
from contextlib import suppress
from types import FrameType

_EXIT_CANNOT_SERVE = 1  # exit code where stdout is closed or lacks: docs/sources/interface.md
_EXIT_INTERRUPTED = 130  # exit code after Ctrl-C: 128 + SIGINT, as shells count it
_STANDARD_STREAMS = 3  # descriptors 0, 1 and 2


def main() -> None:
    """Run the command line of this process."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    _open_closed_streams()
    try:
        from rramalloc.cli.live_line import announce_compilation
        from rramalloc.cli.main import main as run

        announce_compilation(quiet=not {"-q", "--quiet"}.isdisjoint(sys.argv))
        run()
    except KeyboardInterrupt:
        _say(b"interrupted\n")
        sys.exit(_EXIT_INTERRUPTED)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        _say(b"error: too many open files: raise the limit of this process (ulimit -n)\n")
        sys.exit(_EXIT_CANNOT_SERVE)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    """End at once within an import, which may swallow an exception or print it; else raise one."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _say(b"interrupted\n")
            os._exit(_EXIT_INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


def _say(line: bytes) -> None:
    """Write a line on stderr, unless that is full or closed."""
    with suppress(OSError):
        os.write(2, line)


def _open_closed_streams() -> None:
    """Open closed streams, so that no file takes their number: libraries write to it."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < _STANDARD_STREAMS:
        os.set_inheritable(descriptor, True)  # workers of a sweep have the same streams
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    if sys.stdout is None:
        sys.stderr.write("error: standard output is closed; send it to /dev/null where it is not wanted\n")
        sys.exit(_EXIT_CANNOT_SERVE)


if __name__ == "__main__":
    main()
