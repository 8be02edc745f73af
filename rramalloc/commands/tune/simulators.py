"""Simulators that judge allocations: a lab's own class, any command, and the tools that exports are for.

Other packages name a function from the words of `--simulator` to a Simulator as an entry point of the group
`rramalloc.simulators`.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple, Protocol, runtime_checkable

from rramalloc.allocation.allocation import Allocation
from rramalloc.children import python_command
from rramalloc.choices import Mapping as MappingName
from rramalloc.commands.export.export import export
from rramalloc.commands.tune.tuning import OwnChoice
from rramalloc.errors import SimulatorError, SpecError, UnknownNameError
from rramalloc.files import ShippedName
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.hardware.tables import Counting
from rramalloc.lazy import entry_point, foreign, load_foreign, plugin_errors
from rramalloc.network.network import Network

PLACE = "{allocation}"
"""Stands in a command for the path of the allocation's file."""
SIMULATOR_GROUP = "rramalloc.simulators"
_TAIL_BYTES = 1 << 16  # of a simulator's output that are kept: the figure stands in the last line
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:nan|inf(?:inity)?))")


@runtime_checkable
class Simulator(Protocol):
    """Judge of allocations; a lab's own tool is one small class.

    Answers are kept by its name: another version or setting of a tool needs another one.
    """

    @property
    def name(self) -> str:
        """Name, with every setting that changes a figure."""

    def evaluate(self, network: Network, allocation: Allocation) -> float:
        """Return the figure of an allocation, lower is better.

        It may be called from several threads at once. Whatever it raises, and a figure that is negative or
        no number, is kept as a failed evaluation with its reason.
        """


@runtime_checkable
class Chooser(Protocol):
    """Simulator whose tool can also choose an allocation itself."""

    def choose(self, network: Network, hardware: Hardware, arrays: int) -> OwnChoice:
        """Return its choice, the arrays as the tool counts them, and the figure. Raises SimulatorError."""


@runtime_checkable
class Interruptible(Protocol):
    """A simulator whose evaluations can be ended from outside."""

    def interrupt(self) -> None:
        """End every running evaluation."""


def checked_figure(value: object) -> float:
    """Return a figure as a finite number that is not negative.

    Text is read in plain ASCII alone: Python also takes digits of other scripts and 1_000. Raises
    SimulatorError.
    """
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise SimulatorError(f"gave no number: {value[:60]!r}")
    try:
        figure = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise SimulatorError(f"gave no number: {str(value)[:60]!r}") from None
    if not math.isfinite(figure) or figure < 0:
        raise SimulatorError(f"gave {figure}: a figure must be finite and not negative")
    return figure


@dataclass(kw_only=True)
class ChildProcess:
    """Runs commands, each in a new group of processes that ends with its time or on request.

    timeout_s: of one command.
    """

    timeout_s: float
    _ended: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)
    _running: set[subprocess.Popen[bytes]] = field(default_factory=set, compare=False, repr=False)

    def interrupt(self) -> None:
        """End every running command, and those that begin later at once.

        The program may end before the threads that wait for them go on.
        """
        self._ended.set()
        for process in tuple(self._running):
            _end(process)

    def run(self, command: Sequence[str]) -> str:
        """Return the end of what a command prints. Raises SimulatorError if it fails or takes too long."""
        try:
            process = subprocess.Popen(  # noqa: S603 - what the user asks for
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise SimulatorError(f"{command[0]} cannot be started: {error.strerror or error}") from None
        self._running.add(process)
        out, err = _Tail(process.stdout), _Tail(process.stderr)
        code: int | None = None
        try:
            if not self._ended.is_set():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(self.timeout_s)
        finally:
            _end(process)
            self._running.discard(process)
        text, said = out.text(), err.text()
        if code != 0 and self._ended.is_set():
            raise InterruptedError
        if code is None:
            raise SimulatorError(f"no answer within {self.timeout_s:g} s")
        if code != 0:
            last = (said.strip() or text.strip()).splitlines()[-1:]
            ended = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
            raise SimulatorError(f"{ended}{f': {last[0][:200]}' if last else ''}")
        return text


class _Tail:
    """Reads a pipe to its end and keeps the last part, whatever a tool writes."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self._kept, self._pipe = bytearray(), pipe
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        if self._pipe is None:
            return
        with self._pipe as pipe:
            while chunk := os.read(pipe.fileno(), _TAIL_BYTES):
                self._kept += chunk
                del self._kept[:-_TAIL_BYTES]

    def text(self) -> str:
        """Return the end of the output."""
        self._thread.join(1.0)  # a process that left the group may keep the pipe open
        return bytes(self._kept).decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing is left of the group
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@dataclass
class CommandSimulator(ChildProcess):
    """Any program: the last line that it prints is the figure.

    words: the command and its arguments, run without a shell, in which `{allocation}` is the path of the
    allocation's file.
    """

    words: tuple[str, ...]

    @property
    def name(self) -> str:
        """The command."""
        return shlex.join(self.words)

    def evaluate(self, network: Network, allocation: Allocation) -> float:
        """Return the last line that the command prints. Raises SimulatorError."""
        with tempfile.TemporaryDirectory(prefix="rramalloc-") as folder:
            path = Path(folder) / "allocation.json"
            allocation.save(path)
            text = self.run([word.replace(PLACE, str(path)) for word in self.words])
        return checked_figure(_last_line(text).strip())


@dataclass
class ExportedTool(ChildProcess):
    """A tool that allocations are exported to: each is exported, and run.py of the export runs the tool.

    tool: name of the target; checkout: folders of its sources; options: more words for run.py.
    """

    tool: str
    checkout: tuple[str, ...]
    options: tuple[str, ...]

    @property
    def name(self) -> str:
        """The tool with its options."""
        return shlex.join((self.tool, *self.options))

    @property
    def kept_as(self) -> str:
        """The name by which answers are kept: those to an export with less in it say something else."""
        return self.name + TOOLS[self.tool].exported

    def evaluate(self, network: Network, allocation: Allocation) -> float:
        """Return the figure that run.py prints last. Raises SimulatorError, RramallocError."""
        with tempfile.TemporaryDirectory(prefix="rramalloc-") as folder:
            export(network, allocation, TOOLS[self.tool].target).save(folder)
            return _figure(self._run(Path(folder)))

    def choose(self, network: Network, hardware: Hardware, arrays: int) -> OwnChoice:
        """Return the allocation that the tool itself makes. Raises SimulatorError, RramallocError."""
        tool = TOOLS[self.tool]
        if tool.own is None:
            raise SimulatorError(f"{self.tool} chooses no copies for a number of arrays")
        return self.chosen(network, hardware, *(word.format(arrays=arrays) for word in tool.own))

    def chosen(self, network: Network, hardware: Hardware, *options: str) -> OwnChoice:
        """Return the tool's choice with these options of run.py. Raises SimulatorError, RramallocError."""
        tool = TOOLS[self.tool]
        with tempfile.TemporaryDirectory(prefix="rramalloc-") as folder:
            export(network, {}, tool.target, hardware=hardware, mapping=tool.mapping).save(folder)
            text = self._run(Path(folder), *options)
        lines = [line.split() for line in text.splitlines()]
        layers = [words for words in lines if words[:1] == ["layer"] and words[-4:-3] == ["copies"]]
        for words in layers:
            if not all(re.fullmatch("[0-9]{1,12}", count) for count in (words[-3], words[-1])):
                raise SimulatorError(f"gave copies or arrays that are no numbers: {' '.join(words)[:60]!r}")
        return OwnChoice(
            figure=_figure(text),
            copies={" ".join(words[1:-4]): int(words[-3]) for words in layers},
            arrays=sum(int(words[-1]) for words in layers),
        )

    def _run(self, folder: Path, *options: str) -> str:
        script = str(folder / "run.py")
        return self.run(python_command(script, *self.checkout, *self.options, *options))


def _figure(text: str) -> float:
    return checked_figure(_last_line(text).split()[-1])


def _last_line(text: str) -> str:
    lines = text.rstrip().splitlines()
    if not lines:
        raise SimulatorError("printed nothing: the last line must be the figure")
    return lines[-1]


class Tool(NamedTuple):
    """A tool that `--simulator` names.

    target: of the export; mapping: how it lays weights out; hardware: that it counts arrays with;
    checkouts: programs whose folders run.py takes; own: options of run.py that let the tool choose, None if
    it cannot choose for a number of arrays; exported: contents of an export besides copies, in words.
    """

    target: str
    mapping: MappingName
    hardware: Callable[[], Hardware]
    checkouts: tuple[str, ...]
    own: tuple[str, ...] | None
    exported: str = ""


def _preset(name: str) -> Hardware:
    return load_hardware(ShippedName(name))


def _pimsyn_hardware() -> Hardware:
    """Return arrays of 256 x 256 cells of 4 bits, a weight in each; grouped convolutions count as dense."""
    plain = _preset("plain").with_crossbar(256, 256)
    precision = plain.precision.model_copy(update={"weight_bits": 4, "input_bits": 4, "output_bits": 4})
    crossbar = plain.crossbar.model_copy(update={"cell_bits": 4})
    counting = Counting(groups="dense", classifiers="host", row_blocks="anywhere")
    parts = {"precision": precision, "crossbar": crossbar, "counting": counting}
    return plain.model_copy(update={"name": "pimsyn", **parts})


TOOLS: Mapping[str, Tool] = {
    "mnsim": Tool("mnsim", "whole_kernel", lambda: _preset("mnsim"), ("MNSIM-2.0",), ()),
    "neurosim": Tool(
        "neurosim",
        "im2col",
        lambda: _preset("neurosim"),
        ("DNN_NeuroSim_V1.4",),
        ("--own",),
    ),
    "pimcomp": Tool(
        "pimcomp",
        "im2col",
        lambda: _preset("pimcomp"),
        ("PIMCOMP-NN",),
        ("--own",),
        ", cores given",
    ),
    "pimsim": Tool(
        "pimcomp",
        "im2col",
        lambda: _preset("pimcomp").with_values({"chip.tiles": [8, 8]}),  # the mesh of pimsim-nn
        ("PIMCOMP-NN", "pimsim-nn"),
        ("--own",),
        ", cores given",
    ),
    "pimsyn": Tool("pimsyn", "im2col", _pimsyn_hardware, ("PIMSYN-NN",), ("--own", "{arrays}")),
}


def simulator_named(text: str, *, tool_paths: Sequence[str] = (), timeout_s: float = 600.0) -> Simulator:
    """Return the simulator that the text of `--simulator` means.

    text: a command with `{allocation}` among its words, or the name of a tool and options for its run.py;
    tool_paths: folders of the tool's sources, else RRAMALLOC_TOOL names them; timeout_s: of one evaluation.
    Raises SpecError for what is no command line or a tool whose sources are not named, UnknownNameError.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise SpecError("simulator", f"is no command line ({str(error).lower()}): {text[:60]!r}") from None
    if any(PLACE in word for word in words):
        return CommandSimulator(words, timeout_s=timeout_s)
    name = words[0] if words else ""
    if name in TOOLS:
        return ExportedTool(name, _checkouts(name, tool_paths), words[1:], timeout_s=timeout_s)
    if name in foreign(SIMULATOR_GROUP):
        with plugin_errors(entry_point(SIMULATOR_GROUP, name, "simulator")):
            made: Simulator = load_foreign(SIMULATOR_GROUP, name, "simulator")(words)
            return made
    if len(words) > 1:
        reason = (
            f"must be one of {', '.join(simulator_names())} with options, or a command with {PLACE} where"
        )
        raise SpecError("simulator", f"{reason} it takes the path of the allocation, got {text[:60]!r}")
    raise UnknownNameError("simulator", name, simulator_names())


def simulator_names() -> tuple[str, ...]:
    """Return the names that `--simulator` takes besides commands; those of other packages last."""
    return (*TOOLS, *sorted(set(foreign(SIMULATOR_GROUP)) - set(TOOLS)))


def _checkouts(name: str, given: Sequence[str]) -> tuple[str, ...]:
    """Return the folders of a tool's sources. Raises SpecError."""
    programs, variable = TOOLS[name].checkouts, f"RRAMALLOC_{name.upper()}"
    if not given:
        given = [part for part in os.environ.get(variable, "").split(os.pathsep) if part]
    if len(given) != len(programs):
        what = " and ".join(programs)
        reason = f"needs the folder of {what}: name it with --tool-path, or in {variable}"
        raise SpecError(f"simulator {name!r}", f"{reason}; got {len(given)} folders")
    for folder in given:
        if not os.path.isdir(folder):
            raise SpecError(f"simulator {name!r}", f"{folder[:200]} is no folder")
    return tuple(os.path.abspath(folder) for folder in given)
