"""The commands and their group: checks before the work, and additions to messages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from rramalloc.cli import EXIT_INTERRUPTED
from rramalloc.cli.output import deliver, note
from rramalloc.cli.parameters import DRAWN, RESULT, OptionValue, Panel, described, of_call, passed, typed
from rramalloc.errors import suggestion
from rramalloc.files import check_outputs, check_writable
from rramalloc.lazy import foreign
from rramalloc.room import Room, installed, rooms

SEVERAL_FILES = "FILE..."
"""Name of the value of an option that takes files up to the next option."""
_TYPE = re.compile(r" <(str|list\[str\])>")
_WHOLE = re.compile(r"(\[default: \d+)\.0(?=[];])")
"""A whole number as a default, which Python writes with a point where a share or a time is meant."""
_WRONG_CHOICE = re.compile(r"'(?P<got>.*)' is not one of (?P<known>'.*')\.?", re.DOTALL)


def _repeated(args: list[str], several: Collection[str]) -> Iterator[str]:
    """Yield the arguments with an option of `several` before every value that follows it."""
    option = ""
    for place, word in enumerate(args):
        if word.startswith("-"):
            name, joined, _ = word.partition("=")
            option = name if name in several else ""
            yield word
            follows = bool(joined)
        elif option and follows:
            yield from (option, word)
        else:
            yield word
            follows = True
        if word == "--":
            yield from args[place + 1 :]
            return


class _WholeSentence:
    """A command that lists of commands show with its whole first sentence."""

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first sentence of the help."""
        return super().get_short_help_str(limit=1000)  # type: ignore[misc, no-any-return]


class Command(_WholeSentence, TyperCommand):
    """A command with help in parts, which refuses outputs that are inputs or are named twice."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the parameters by panels, with plugins beside the methods and without Python's types."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        panels |= {panel: [] for panel in get_args(Panel)}
        for parameter in self.get_params(ctx):
            usage, words = parameter.get_help_record(ctx) or ("", "")
            group = _value(parameter).plugins
            others = ", ".join(sorted(foreign(group))) if group else ""
            words += f"  Of other packages: {others}." if others else ""
            panel = "Output" if parameter.name == "help" else getattr(parameter, "rich_help_panel", None)
            if parameter.param_type_name == "argument":
                panel = "Arguments"
            panels[panel or "Options"].append((_TYPE.sub("", usage), _WHOLE.sub(r"\1", words)))
        for panel, rows in panels.items():
            if rows:
                with formatter.section(panel):
                    formatter.write_dl(rows)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Let an option for files take several of them, once an argument stands first."""
        if args and not args[0].startswith("-"):
            several = {
                name
                for parameter in self.params
                if parameter.metavar == SEVERAL_FILES
                for name in parameter.opts
            }
            args = list(_repeated(args, several))
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        outputs: dict[str, str] = {}
        inputs: list[object] = []
        written = [
            (parameter, ctx.params.get(str(parameter.name)))
            for parameter in self.params
            if _value(parameter).writes
        ]
        for parameter in self.params:
            value = ctx.params.get(str(parameter.name))
            if not _value(parameter).writes:
                inputs += value if isinstance(value, list | tuple) else [value]
            elif value is not None:
                option = parameter.opts[0]
                outputs[option if option.startswith("-") else str(parameter.metavar)] = str(value)
        check_outputs(outputs, [text for text in inputs if isinstance(text, str)])
        for parameter, path in written:
            if "DIR" not in str(parameter.metavar):
                check_writable(path)
        self._check_latex(ctx)
        self._check_figures(
            [
                path
                for parameter, path in written
                if _value(parameter).writes == "figure" and path is not None
            ],
            ctx.params.get("figure_width"),
        )
        from rramalloc.cli.live_line import Pulse

        with Pulse(quiet=bool(ctx.params.get("quiet"))):
            return super().invoke(ctx)

    def _check_latex(self, ctx: Any) -> None:
        """Raise BadParameter for options of LaTeX without it, and for a label that LaTeX cannot read."""
        for name, option in typed(ctx).items():
            is_latex = name in ("caption", "label", "plain_units") and "columns" in ctx.params
            if is_latex and ctx.params.get("output_format") not in (None, "latex"):
                raise typer.BadParameter(f"{option} is for --format latex only")
        if ctx.params.get("columns") is not None and ctx.params["output_format"] == "json":
            raise typer.BadParameter("--columns is for tables, JSON has all fields")
        label = ctx.params.get("label")
        if label is not None and not re.fullmatch(r"[A-Za-z0-9:._/-]+", label):
            words = "is of letters, digits and : . _ / - alone, such as tab:vgg16"
            raise typer.BadParameter(f"--label {words}, got {label[:60]!r}")

    def _check_figures(self, paths: Sequence[str], width: int | None) -> None:
        """Raise SpecError for figures that cannot be drawn, BadParameter for a width without one."""
        if paths:
            from rramalloc.chart import check_width, figure_format

            check_width(width)
            for path in paths:
                figure_format(path)
        elif width is not None:
            raise typer.BadParameter("--figure-width needs --figure, the file to draw")


def _value(parameter: Any) -> OptionValue:
    """Return the properties of the values of a parameter."""
    return parameter.metavar if isinstance(parameter.metavar, OptionValue) else OptionValue("")


class Group(_WholeSentence, TyperGroup):
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


class _CommandsOfRooms(Mapping[str, Any]):
    """Command of every room that has one, made when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        return _made(name)

    def __iter__(self) -> Iterator[str]:
        return (_spelled(room) for room in rooms().values() if room.has_command)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _spelled(room: Room) -> str:
    """Return the name of a room's command as one types it."""
    return room.name.replace("_", "-")


@cache
def _command(name: str) -> Any:
    """Return the command of a room as Typer takes it: its own, or one that delivers what its call returns."""
    room = installed()[name]
    if room.command:
        return room.load(room.command)

    def command(given: Mapping[str, Any]) -> None:
        call = room.load(room.call)
        deliver(call(**passed(given, call)), given, room.figure)

    make = of_call(room.full(room.call), outputs=DRAWN if room.figure else RESULT, example=room.example)
    return described(room.help)(make(command))


@cache
def _made(name: str) -> Any:
    """Return the command of a room as click runs it."""
    found = _command(name.replace("-", "_"))
    app = typer.Typer(rich_markup_mode=None, callback=lambda: None)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name, cls=Command)(found)
    return typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]


def _first_sentence(room: Room) -> str:
    """Return the first sentence of a command's help."""
    found = _command(room.name)
    text = str(found.info.help if isinstance(found, typer.Typer) else found.__doc__)
    sentence = " ".join(text.partition("\n\n")[0].split()).partition(". ")[0]
    return f"{sentence.rstrip('.')}."


class Rooms(Group):
    """The commands of all rooms, in the panels of their rooms."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _CommandsOfRooms()  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands in their order."""
        return [*self.commands]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command. Raises UnsupportedError for one of a room that lacks another room."""
        has_command = (room for room in installed().values() if room.has_command)
        return _made(cmd_name) if cmd_name in map(_spelled, has_command) else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the first sentence of every command, by panels; no command is made for that."""
        width = max(map(len, self.commands), default=0)
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.commands:
            room = rooms()[name.replace("-", "_")]
            panels.setdefault(room.panel, []).append((name.ljust(width), _first_sentence(room)))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


def _with_suggestion(message: str) -> str:
    message = message.removeprefix("Value error, ")
    match = _WRONG_CHOICE.fullmatch(message)
    if match is None:
        return message
    hint = suggestion(match["got"], re.findall(r"'([^']+)'", match["known"]))
    return f"{message.removesuffix('.')}; {hint}" if hint else message
