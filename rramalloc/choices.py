"""Values of options, and the arguments that calls and commands share: each list in one place."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingOf
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args

Mapping = Literal["im2col", "kernel_split", "whole_kernel", "sdk"]
"""Layout of weights on crossbars (docs/sources/model.md 3)."""
FoldMapping = Literal["im2col", "kernel_split", "whole_kernel", "sdk", "best"]
"""Layout that `fold` lays filters out for; `best` chooses a mapping for every layer."""
FullyConnected = Literal["host", "crossbar"]
"""Who computes linear layers on a 1 x 1 grid: the host, untimed, or arrays."""
Handoff = Literal["next", "same"]
"""Step in which a computed pixel can be used (docs/sources/model.md 4)."""
QuantityName = Literal[
    "arrays", "latency", "makespan", "latency_ns", "interval", "energy", "edp", "area", "sequential"
]
"""Quantity by which allocations are measured.

latency: as of `optimize`, in ns where the length of a step depends on the allocation, else in steps.
"""
SHOWN_BY: dict[QuantityName, str] = {
    "makespan": "pareto",
    "latency": "optimize sweep compare explain pareto against tune",
    "latency_ns": "pareto against",
    "interval": "optimize sweep explain pareto against tune",
    "arrays": "optimize against",
    "energy": "optimize sweep compare pareto against",
    "edp": "optimize sweep compare pareto against",
    "area": "pareto against",
    "sequential": "optimize sweep tune",
}
"""All quantities, and what shows each: commands, `pareto` as what it puts another one against ("against"),
and `tune` as an objective of its first allocations."""


def shown_by(command: str) -> tuple[QuantityName, ...]:
    """Return the quantities that a command shows."""
    return tuple(name for name, shows in SHOWN_BY.items() if command in shows.split())


if TYPE_CHECKING:
    ObjectiveName: TypeAlias = QuantityName
    SweptObjective: TypeAlias = QuantityName
    ComparedObjective: TypeAlias = QuantityName
    ExplainedObjective: TypeAlias = QuantityName
    FrontObjective: TypeAlias = QuantityName
    FrontAgainst: TypeAlias = QuantityName
else:  # as a type checker cannot know
    ObjectiveName = Literal[shown_by("optimize")]
    SweptObjective = Literal[shown_by("sweep")]
    ComparedObjective = Literal[shown_by("compare")]
    ExplainedObjective = Literal[shown_by("explain")]
    FrontObjective = Literal[shown_by("pareto")]
    FrontAgainst = Literal[shown_by("against")]
NodeNames = Literal["module", "onnx"]
"""Source of the names of ONNX nodes: PyTorch's modules where the file has them, or its own names."""
FoldRule = Literal["least_work", "source", "least_padding", "height_first", "width_first", "balanced"]
"""Rule that splits folded pixels over height and width (docs/sources/companions.md 3)."""
AuxiliaryLayer = Literal["avgpool", "conv1x1", "conv3x3"]
"""Layer that stands behind a layer whose latency is measured, to make its output small."""
OverheadMethod = Literal["regression", "subtract", "both"]
"""Way in which the overhead of a device is taken off a measured latency."""
By = Literal["network", "budget", "method"]
"""What panels of a figure of small multiples are of."""
RowsFormat = Literal["csv", "parquet"]
"""File with all rows of a sweep."""

MAPPINGS: tuple[Mapping, ...] = get_args(Mapping)
FC_CHOICES: tuple[FullyConnected, ...] = get_args(FullyConnected)
HANDOFFS: tuple[Handoff, ...] = get_args(Handoff)
NODE_NAMES: tuple[NodeNames, ...] = get_args(NodeNames)
FOLD_RULES: tuple[FoldRule, ...] = get_args(FoldRule)
AUXILIARY_LAYERS: tuple[AuxiliaryLayer, ...] = get_args(AuxiliaryLayer)


HostLike = str | Sequence[str]
"""Layers that are left to the host: a name or pattern such as "conv*", or several."""


ValuesLike = Sequence[str] | MappingOf[str, object]
"""Values of the hardware by dotted name: ["timing.adc_ns=2"], or {"timing.adc_ns": 2}."""


InputShapes = MappingOf[str, Sequence[int]]
"""Shape of every dynamic input by name, with batch: {"images": (1, 3, 224, 224)}."""
InputValues = MappingOf[str, bool | int | float | Sequence[bool | int | float]]
"""Values of inputs that decide what runs, by name: {"use_cache_branch": True, "sr": 16000}."""


StatesLike = MappingOf[str, str]
"""Layers that read a state by the stage that writes it for them: {"gates": "gates"}."""


class NetworkArguments(TypedDict, total=False):
    """Arguments by which a network is read.

    Parameters
    ----------
    input_shapes
        Shape with batch of every input of an ONNX file that has open axes, by name.
    input_values
        Values of inputs of an ONNX file that decide what runs, by name.
    allow_partial
        Take operators whose weights cannot be modelled as barriers; the coverage then says so.
    feeds_back
        Whether the next input needs this one's output, as the next token of a decoder does; None: as the
        network says.
    sequences
        Sequences that take turns in a network that feeds back, 1 if left out.
    states
        States that a stage writes and that one layer reads when the next input comes: the layer by the stage.
        None: those of the network.
    """

    input_shapes: InputShapes | None
    input_values: InputValues | None
    allow_partial: bool
    feeds_back: bool | None
    sequences: int | None
    states: StatesLike | None


Divided = Literal["width", "windows"]
"""Number that copies must divide: windows (blocks, with modes) of a row of the output, or all of them."""
CopiesLike = Sequence[str] | MappingOf[str, object]
"""Limits of copies: ["conv1=4", "conv*=2..8"], or {"conv1": 4, "conv*": "2..8", "fc": (1, 2)}.

Any object as a limit, so that a wrong one is named with its layer.
"""


AtMostLike = Sequence[str] | MappingOf[str, float | str]
"""Limits of quantities: ["area_um2=2mm2"], or {"latency_ns": "10us", "energy_pj": 1e6}."""


MAX_ARRAYS = 2**40
"""Arrays of a budget at most: far above any chip, and more than all copies of a network can use."""
DEFAULT_WORK = 100
"""Units of search: 5 s of a reference core."""
FRONT_WORK = 800
"""Units of search of a front, over all its budgets."""
NETWORK_DEFAULTS: NetworkArguments = {
    "input_shapes": None,
    "input_values": None,
    "allow_partial": False,
    "feeds_back": None,
    "sequences": None,
    "states": None,
}
"""Defaults of the arguments by which a network is read."""
SHARED: dict[str, tuple[type, dict[str, Any]]] = {
    NetworkArguments.__name__: (NetworkArguments, dict(NETWORK_DEFAULTS)),
}
"""Arguments that calls share by the name of their TypedDict, with their defaults; others join by `share`."""
UNPACKED = re.compile(r"Unpack\[(\w+)\]")
"""Annotation by which a call says that it takes the arguments of a TypedDict."""


def share_arguments(kind: type, defaults: MappingOf[str, Any]) -> None:
    """Let calls take the arguments of a TypedDict as `**given: Unpack[kind]`, with their defaults."""
    taken = {name: value for name, value in defaults.items() if name in kind.__annotations__}
    SHARED[kind.__name__] = (kind, taken)


_SECTION = re.compile(r"^(\w+)\n-{4,}$", re.MULTILINE)
"""Heading of a part of a docstring in the style of NumPy."""


def docstring_of(text: str, kind: str) -> str:
    """Return a docstring whose Parameters end with those that a call shares with others.

    Parameters
    ----------
    text
        The call's own docstring, without its indentation.
    kind
        Name of the TypedDict of the arguments; None of those that the docstring has already is added.
    """
    sections = _sections(text)
    parameters = sections.pop("Parameters", "")
    shared = _shared_words(kind)
    missing = [
        words
        for name, words in shared.items()
        if not re.search(rf"^(?:\S.*, )?{name}(?:,.*)?$", parameters, re.M)
    ]
    ordered = {
        "": sections.pop(""),
        "Parameters": "\n".join([*([parameters] if parameters else []), *missing]),
    }
    return "\n\n".join(
        f"{name}\n{'-' * len(name)}\n{body}" if name else body for name, body in (ordered | sections).items()
    )


def _sections(text: str) -> dict[str, str]:
    """Return the parts of a docstring in the style of NumPy by heading, the text before them by ""."""
    first, *rest = _SECTION.split(inspect.cleandoc(text))
    return {"": first.strip()} | {
        name: body.strip("\n") for name, body in zip(rest[::2], rest[1::2], strict=True)
    }


def _shared_words(kind: str) -> dict[str, str]:
    """Return the docstring section of each argument of a TypedDict, which begins with its name."""
    taken_kind, taken = SHARED[kind]
    words = dict[str, str]()
    # Its own docstring first, then those of the kinds that it extends, which stand in the order of sharing.
    for arguments in (taken_kind, *(other for other, _ in SHARED.values())):
        rows = re.split(r"\n(?=\S)", _sections(arguments.__doc__ or "")["Parameters"])
        words = {row.partition("\n")[0]: row for row in rows} | words
    return {name: words[name] for name in taken}


def signature_of(call: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a call; the arguments that it shares with others stand last, by keyword."""
    signature, parameters = inspect.signature(call), list[inspect.Parameter]()
    for parameter in signature.parameters.values():
        shared = UNPACKED.fullmatch(str(parameter.annotation))
        if parameter.kind is not parameter.VAR_KEYWORD or shared is None:
            parameters.append(parameter)
            continue
        parameters += shared_parameters(shared[1]).values()
    return signature.replace(parameters=parameters)


def shared_parameters(name: str) -> dict[str, inspect.Parameter]:
    """Return the arguments of a TypedDict as parameters by keyword; "" has none."""
    kind, defaults = SHARED[name] if name else (NetworkArguments, {})
    return {
        argument: inspect.Parameter(
            argument,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=kind.__annotations__[argument].__forward_arg__,
        )
        for argument, default in defaults.items()
    }
