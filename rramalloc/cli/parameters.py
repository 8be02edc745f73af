"""Parameters of the commands: names, types and defaults stand at the command, a table says what help says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin

import typer

from rramalloc import choices
from rramalloc.allocation import case_arguments
from rramalloc.choices import shared_parameters, signature_of
from rramalloc.cli import complete
from rramalloc.errors import SpecError
from rramalloc.units import amount

_NUMBERS = re.compile(r" *[0-9]{1,10} *(, *[0-9]{1,10} *){0,7}")
_ONE = r" *[+-]?[0-9]{1,18}(?:\.[0-9]{0,18})?(?:[eE][+-]?[0-9]{1,2})? *"
_NUMBERS_OF_INPUT = re.compile(rf"{_ONE}(?:,{_ONE}){{0,1023}}")

Command = TypeVar("Command", bound=Callable[..., None])
_Read = TypeVar("_Read")
Format = Literal["table", "json", "csv", "markdown", "latex"]
"""Output formats of a result."""
Panel = Literal["Problem", "Goal", "Search", "Output"]
"""Part of a command's help."""
Written = Literal["file", "figure"]
"""Kind of output that the value of an option names; the ending of a figure's name is its format."""
Help = Mapping[str, tuple[str | None, str] | tuple[str | None, str, Callable[..., Any]]]
"""Help of each parameter: the name that it calls the value (None: by its type), a sentence, and a callback.
"""


class OptionValue(str):
    """Word by which help calls a value, with other properties of the values of an option.

    option: its name, where that does not follow from the parameter's; unit: of numbers that may be given in
    others, "" for shares; completion: of a shell; plugins: group of entry points whose names it takes too;
    writes: what the command writes there.
    """

    option: str
    unit: str | None
    completion: complete.Completion | None
    plugins: str
    writes: Written | None

    def __new__(
        cls,
        word: str,
        *,
        option: str = "",
        unit: str | None = None,
        completion: complete.Completion | None = None,
        plugins: str = "",
        writes: Written | None = None,
    ) -> Self:
        """Return the word with these properties."""
        value = super().__new__(cls, word)
        value.option = option
        value.unit = unit
        value.completion = completion
        value.plugins = plugins
        value.writes = writes
        return value


def _by_name(
    option: str, form: str, texts: list[str] | None, read: Callable[[str], _Read | None]
) -> dict[str, _Read]:
    """Return what stands behind the last = of each text, by what is in front of it.

    read: returns None for what is not of the form. Raises SpecError for it, and for a name that stands twice.
    """
    found: dict[str, _Read] = {}
    for text in texts or []:
        name, _, value = text.rpartition("=")
        entry = read(value) if name else None
        if entry is None:
            raise SpecError(option, f"must be {form}, got {text[:60]!r}")
        if name in found:
            raise SpecError(option, f"{name[:60]!r} is given twice")
        found[name] = entry
    return found


def parse_input_shapes(texts: list[str] | None) -> dict[str, tuple[int, ...]]:
    """Return {"images": (1, 3, 224, 224)} from ["images=1,3,224,224"]. Raises SpecError."""

    def extents(sizes: str) -> tuple[int, ...] | None:
        numbers = _whole(sizes)
        return numbers if numbers and 0 not in numbers else None

    return _by_name("--input-shape", "NAME=SIZES such as images=1,3,224,224", texts, extents)


def parse_states(texts: list[str] | None) -> dict[str, str] | None:
    """Return {"gates": "gates"} from ["gates=gates"], None for no texts. Raises SpecError."""
    layer_of = _by_name("--state", "STATE=LAYER such as gates=gates", texts, lambda layer: layer or None)
    return layer_of or None


def parse_input_values(texts: list[str] | None) -> dict[str, bool | float | tuple[float, ...]]:
    """Return {"use_cache_branch": True} from ["use_cache_branch=true"]. Raises SpecError."""

    def flag_or_numbers(text: str) -> bool | float | tuple[float, ...] | None:
        flag = {"true": True, "false": False}.get(text.strip().lower())
        if flag is not None or not _NUMBERS_OF_INPUT.fullmatch(text):
            return flag
        numbers = [_number(part) for part in text.split(",")]
        return numbers[0] if len(numbers) == 1 else tuple(numbers)

    form = "NAME=VALUE such as use_cache_branch=true or sr=16000"
    return _by_name("--input-value", form, texts, flag_or_numbers)


_PARSERS: Mapping[str, Callable[[list[str] | None], Any]] = {
    "input_shapes": parse_input_shapes,
    "input_values": parse_input_values,
    "states": parse_states,
}
"""What makes the value of a parameter of a call from the texts of its option."""


def _number(text: str) -> float:
    """Return a whole number, or one with a fraction."""
    return int(text) if text.strip().lstrip("+-").isdigit() else float(text)


def parse_budget(text: str | None) -> int | str | None:
    """Return 1024 from "1024"; "x2" and numbers of kinds stay texts. Raises BadParameter."""
    try:
        return text if text is None or text[:1] in "xX" or "=" in text else int(text)
    except ValueError:
        words = "must be a number such as 1024, x2 for twice the minimum, or small=512,large=64 of kinds"
        raise typer.BadParameter(words) from None


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Return (64, 6, 6, 4) from "64,6,6,4". Raises SpecError."""
    numbers = _whole(text)
    if not numbers:
        raise SpecError(option, f"must be whole numbers such as 2,2, got {text[:60]!r}")
    return numbers


def _whole(text: str) -> tuple[int, ...]:
    """Return the numbers between commas, none if the text is anything else."""
    return tuple(map(int, text.split(","))) if _NUMBERS.fullmatch(text) else ()


def _as_declared(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    """Return a default as it is, a ShippedName, of which Typer makes a text that may name a file."""
    source = context.get_parameter_source("hardware")
    return parameter.default if source is not None and source.name == "DEFAULT" else value


SECONDS = OptionValue("S", unit="s")
_PANELS: Mapping[Panel, Help] = {
    "Problem": {
        "network": ("NETWORK", "A .json, .onnx or .csv file, or a shipped network's name."),
        "allocation": ("FILE", 'Allocation (JSON or CSV), or {"copies": {...}}.'),
        "hardware": ("FILE|PRESET", "Hardware: a TOML file or a preset.", _as_declared),
        "crossbar": ("ROWSxCOLS", "Size of one array, e.g. 128x128."),
        "set_values": ("SECTION.FIELD=VALUE", "Replace a value of the hardware, e.g. timing.adc_ns=2."),
        "fc": (None, "Where classifiers on one pixel run: host (not timed), or arrays."),
        "host": ("LAYER", "Leave layers to the host, by name or pattern; can be repeated."),
        "mapping": (None, "How weights lie on crossbars."),
        "fold": (None, "Fold filters to the fewest arrays first; needs kernel_split."),
        "input_shapes": ("NAME=1,3,224,224", "Shape of a dynamic ONNX input."),
        "input_values": (
            "NAME=VALUE",
            "Value of an ONNX input that decides what runs, e.g. use_cache=true.",
        ),
        "feeds_back": (None, "The next input needs this one's output, as in a decoder, or does not."),
        "sequences": ("S", "Sequences that take turns in a network that feeds back."),
        "states": ("STATE=LAYER", "LAYER reads what STATE wrote for the input before; can be repeated."),
        "allow_partial": (None, "Take operators whose weights cannot be modelled as barriers."),
        "latency_table": ("TABLE", "Measured step times, from `rramalloc latency`."),
    },
    "Goal": {
        "at_most": ("QUANTITY=X", "Limit, e.g. area_um2=2mm2, energy_pj=5uJ, power_mw=2W, latency_ns=1ms."),
        "copies": ("LAYER=N|A..B", "Hold or limit the copies of layers, e.g. conv1=4."),
        "copies_divide": (None, "Only divisors of the output's width, or of its windows, as copies."),
    },
    "Search": {
        "seed": ("N", "Seed of the search."),
        "work": ("N", "Effort of the search at most, in units of 0.05 s of a core."),
        "time_limit_s": (SECONDS, "Stop by the clock, e.g. 30s: machine-dependent."),
    },
    "Output": {
        "output_format": (None, "How the result is printed."),
        "output": ("FILE", "Also write the result as JSON."),
        "figure": ("FILE", "Also draw it: .svg, .png or .pdf."),
        "by": (None, "Pivot: a column of the table a method, a panel of the figure each of these."),
        "columns": ("A,B,...", "Columns of the table, by their names in JSON, and busy."),
        "caption": ("TEXT", "Caption of a LaTeX table."),
        "label": ("NAME", "Label of a LaTeX table."),
        "plain_units": (None, "A LaTeX table without siunitx, whose columns and units it has else."),
        "figure_width": ("PIXELS", "Width of the figure, 240 to 10,000."),
        "quiet": (None, "No progress and no notes on stderr."),
    },
}
"""Help of the parameters that several commands have, by the part of a command's help they stand in."""
_SHARED: Help = {name: row for rows in _PANELS.values() for name, row in rows.items()}
PLACED = (None, "Count the transfer between tiles, as the arrays would be placed.")
EFFICIENCY = (None, "Show energy of inputs that stream, TOPS and TOPS/W, too.")
_OF_ALLOCATION = ("hardware", "mapping", "fc", "host", "fold")
"""Options that commands which read an allocation take from it unless they are given."""
_NAMES = {
    "input_shapes": ("--input-shape",),
    "input_values": ("--input-value",),
    "set_values": ("--set",),
    "feeds_back": ("--feeds-back/--no-feeds-back",),
    "states": ("--state",),
    "output_format": ("--format",),
    "output": ("-o", "--output"),
    "time_limit_s": ("--time-limit",),
    "quiet": ("--quiet", "-q"),
}
"""Shared options whose names do not follow from those of their parameters."""
_OF_PYTHON = ("on_progress", "progress", "stop", "cancel", "ending")
"""Parameters of calls that a command line has no use for."""
_TEXT = (
    *("AllocationLike", "ArraysLike", "CrossbarLike", "Description", "HardwareLike", "LatencyTableLike"),
    *("MethodLike", "NetworkLike", "PlacementLike", "Simulator", "StrategyLike"),
)
_TEXTS = (
    "AtMostLike",
    "ChangesLike",
    "CopiesLike",
    "HostLike",
    "InputShapes",
    "InputValues",
    "StatesLike",
    "ValuesLike",
)
_KINDS = {**vars(choices), "Sequence": list, **dict.fromkeys(_TEXT, str), **dict.fromkeys(_TEXTS, list[str])}
"""Types on the command line by their names in annotations of calls."""
_OUTPUTS: Mapping[str, tuple[Any, Any]] = {
    "output_format": (Format, "table"),
    "columns": (str | None, None),
    "caption": (str | None, None),
    "label": (str | None, None),
    "plain_units": (bool, False),
    "output": (str | None, None),
    "figure": (str | None, None),
    "figure_width": (int | None, None),
    "quiet": (bool, False),
}
"""Type and default of the options for what commands print and write."""
RESULT = "output_format output quiet"
DRAWN = f"{RESULT} figure figure_width"
LATEX = f"{DRAWN} columns caption label plain_units"
"""Options of commands with a result, with a figure as well, and with a table for a paper as well."""
_COMPLETED = {"network": complete.networks, "hardware": complete.presets}
_WRITTEN: Mapping[str, Written] = {"output": "file", "figure": "figure"}


def described(
    of_command: Help, *, problem: str = "", goal: str = "", search: str = "", output: str = ""
) -> Callable[[Command], Command]:
    """Return the decorator that describes a command for Typer: positional parameters are arguments, the
    others options, each with its help.

    own: what the help says of parameters that are the command's alone, or not what they usually are. Those
    whose annotation has what Typer needs are left as they are.
    problem, goal, search, output: options of the command alone, by the part of the help they stand in.
    """
    rows = {**_SHARED, **of_command}
    panels = {name: panel for panel, shared in _PANELS.items() for name in shared}
    parts: dict[Panel, str] = {"Problem": problem, "Goal": goal, "Search": search, "Output": output}
    panels |= {name: panel for panel, names in parts.items() for name in names.split()}
    first = " ".join(parts.values()).split()

    def place(parameter: inspect.Parameter) -> tuple[Any, ...]:
        """Return where help has a parameter: what is needed first, then what the command alone has."""
        is_optional = parameter.default is not parameter.empty
        return parameter.kind, is_optional, [*first, parameter.name].index(parameter.name)

    def describe(command: Command) -> Command:
        signature = signature_of(command)
        kinds = {
            name: parameter.annotation
            for name, parameter in inspect.signature(command, eval_str=True).parameters.items()
        }
        parameters = []
        for name, parameter in signature.parameters.items():
            kind = kinds[name] if name in kinds else _kind(parameter.annotation)
            if name in rows and get_origin(kind) is not Annotated:
                metavar, words, *callback = rows[name]
                if name in _OF_ALLOCATION and name not in of_command and "allocation" in signature.parameters:
                    words += " Left out: the allocation's."
                kind = Annotated[kind, _info(name, (metavar, words, *callback), parameter.kind)]
            if name in panels:
                kind.__metadata__[0].rich_help_panel = panels[name]
            parameters.append(parameter.replace(annotation=kind))
        parameters.sort(key=place)
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {}  # else Typer evaluates them all again, three times
        return command

    return describe


def _info(name: str, row: tuple[Any, ...], place: Any) -> Any:
    """Return Typer's description of a parameter."""
    is_option = place is inspect.Parameter.KEYWORD_ONLY
    metavar, words, callback = (*row, None)[:3]
    value = metavar if isinstance(metavar, OptionValue) else OptionValue(metavar or "")
    if name in _WRITTEN and not value.writes:
        value = OptionValue(value, writes=_WRITTEN[name])
    known = {
        "metavar": value or None,
        "help": words,
        "autocompletion": value.completion or _COMPLETED.get(name),
        "callback": callback,
    }
    if value.unit is not None:

        def number(text: str) -> float:
            try:
                return amount(str(text), value.unit or "")
            except ValueError as error:
                raise typer.BadParameter(str(error)) from None

        known["parser"] = number
    if not is_option:
        return typer.Argument(**known)
    usual = _NAMES.get(name, ("--" + name.strip("_").replace("_", "-"),))
    return typer.Option(*((value.option,) if value.option else usual), **known)


def of_call(
    call: str, *, shared: str = "", outputs: str = RESULT, without: str = "", example: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the decorator that gives a command the parameters of its call and the first sentence of its
    docstring as help.

    The command takes all values by name in `given`, and those of its own parameters besides. A parameter
    without a default that is an option already is that option; others are options of the command alone.
    call: "module:name"; shared: name of a TypedDict of arguments that are options besides; outputs: options
    for what is printed and written; without: parameters of the call that are no options; example:
    what help says behind the sentence.
    """

    def take(body: Callable[..., None]) -> Callable[..., None]:
        head = _head_of(call)
        keyword = inspect.Parameter.KEYWORD_ONLY
        own = dict(inspect.signature(body, eval_str=True).parameters)
        del own["given"]
        alone = {
            name: parameter
            for name, parameter in own.items()
            if parameter.default is not parameter.empty or parameter.kind is not keyword
        }
        parameters = dict[str, inspect.Parameter]()
        for name, parameter in {**signature_of(head).parameters, **shared_parameters(shared)}.items():
            if name in alone:
                parameters[name] = alone[name]
            elif name not in _OF_PYTHON and name not in without.split():
                place = keyword if parameters else parameter.kind
                parameters[name] = parameter.replace(kind=place, annotation=_kind(parameter.annotation))
        for name, (kind, default) in _OUTPUTS.items():
            if name in outputs.split():
                parameters[name] = inspect.Parameter(name, keyword, default=default, annotation=kind)
        for name, parameter in own.items():
            if name in alone or name not in parameters:
                parameters[name] = parameter

        def command(**given: Any) -> None:
            body(given, **{name: given[name] for name in own})

        command.__signature__ = inspect.Signature(sorted(parameters.values(), key=lambda one: one.kind))  # type: ignore[attr-defined]
        command.__name__ = body.__name__
        sentence = inspect.cleandoc(head.__doc__ or "").partition("\n\n")[0]
        command.__doc__ = f"{sentence}\n\n{example}"
        return command

    return take


def _head_of(call: str) -> Callable[..., Any]:
    """Return a call without its body, from its source: to import it takes a second, and --help has none."""
    module, _, name = call.partition(":")
    spec = find_spec(module)
    text = Path(str(spec and spec.origin)).read_text(encoding="utf-8")
    begin = text.index(f"\ndef {name}(")
    end = text.index('"""', text.index('"""', begin) + 3) + 3
    names = {**vars(case_arguments), **vars(choices)}  # of defaults
    exec(compile(text[begin:end], module, "exec"), names)  # noqa: S102 - our own
    found: Callable[..., Any] = names[name]
    return found


def _kind(annotation: str) -> Any:
    """Return the type of a parameter on the command line: several texts where a call takes a list, else one
    where it takes values of several types."""
    kind = eval(annotation.replace("os.PathLike[str]", "str"), dict(_KINDS))  # noqa: S307 - our own
    given = [part for part in get_args(kind) if part is not type(None)]
    if get_origin(kind) not in (UnionType, Union) or len(given) == 1:
        return kind
    text = list[str] if any(get_origin(part) is list for part in given) else str
    return text if type(None) not in get_args(kind) else text | None


def typed(context: typer.Context) -> dict[str, str]:
    """Return how every option and argument is called that stands on the command line, by its parameter."""
    found = dict[str, str]()
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is not None and source.name == "COMMANDLINE":
            option = parameter.opts[0]
            found[str(parameter.name)] = option if option.startswith("-") else option.upper()
    return found


def passed(given: Mapping[str, Any], call: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters of a command that a call takes by the same names. Raises SpecError.

    given: the locals of the command, where `shared` are its shared arguments.
    """
    every = {**given, **given.get("shared", {})}
    taken = {name: every[name] for name in signature_of(call).parameters if name in every}
    for name, parse in _PARSERS.items():
        if name in taken:
            taken[name] = parse(taken[name])
    return taken
