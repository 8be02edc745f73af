"""Values of options, and the arguments that calls and commands share: each list in one place."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingOf
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

if TYPE_CHECKING:
    from rramalloc.hardware.loader import HardwareLike
    from rramalloc.hardware.tables import CrossbarLike
    from rramalloc.importers import InputShapes, InputValues
    from rramalloc.timing.latency_table import LatencyTableLike

Mapping = Literal["im2col", "kernel_split", "whole_kernel", "sdk"]
"""Layout of weights on crossbars (docs/sources/model.md 3)."""
FoldMapping = Literal["im2col", "kernel_split", "whole_kernel", "sdk", "best"]
"""Layout that `fold` lays filters out for; `best` chooses a mapping for every layer."""
FullyConnected = Literal["host", "crossbar"]
"""Who computes linear layers on a 1 x 1 grid: the host, untimed, or arrays."""
Handoff = Literal["next", "same"]
"""Step in which a computed pixel can be used (docs/sources/model.md 4)."""
ObjectiveName = Literal["latency", "interval", "arrays", "energy", "edp", "sequential"]
"""Quantity that `optimize` minimises."""
SweptObjective = Literal["latency", "interval", "energy", "edp", "sequential"]
"""Quantity that the points of a sweep minimise: those that need no target."""
ComparedObjective = Literal["latency", "energy", "edp"]
"""Quantity by which `compare` judges methods."""
ExplainedObjective = Literal["latency", "interval"]
"""Quantity that `explain` calls faster."""
FrontObjective = Literal["makespan", "latency", "latency_ns", "interval", "energy", "edp", "area"]
"""Quantity that `pareto` puts against arrays, or against another quantity.

latency: as of `optimize`, in ns where the length of a step depends on the allocation, else in steps.
"""
FrontAgainst = Literal["arrays", "latency", "latency_ns", "interval", "energy", "edp", "area"]
"""Quantity that `pareto` puts an objective against."""
NodeNames = Literal["module", "onnx"]
"""Source of the names of ONNX nodes: PyTorch's modules where the file has them, or its own names."""
FoldRule = Literal["least_work", "source", "least_padding", "height_first", "width_first", "balanced"]
"""Rule that splits folded pixels over height and width (docs/sources/companions.md 3)."""
AuxiliaryLayer = Literal["avgpool", "conv1x1", "conv3x3"]
"""Layer that stands behind a layer whose latency is measured, to make its output small."""
OverheadMethod = Literal["regression", "subtract", "both"]
"""Way in which the overhead of a device is taken off a measured latency."""
RowsFormat = Literal["csv", "parquet"]
"""File with all rows of a sweep."""

MAPPINGS: tuple[Mapping, ...] = get_args(Mapping)
FC_CHOICES: tuple[FullyConnected, ...] = get_args(FullyConnected)
HANDOFFS: tuple[Handoff, ...] = get_args(Handoff)
NODE_NAMES: tuple[NodeNames, ...] = get_args(NodeNames)
OBJECTIVES: tuple[ObjectiveName, ...] = get_args(ObjectiveName)
COMPARED_OBJECTIVES: tuple[ComparedObjective, ...] = get_args(ComparedObjective)
EXPLAINED_OBJECTIVES: tuple[ExplainedObjective, ...] = get_args(ExplainedObjective)
FRONT_AGAINST: tuple[FrontAgainst, ...] = get_args(FrontAgainst)
FRONT_OBJECTIVES: tuple[FrontObjective, ...] = get_args(FrontObjective)
FOLD_RULES: tuple[FoldRule, ...] = get_args(FoldRule)
AUXILIARY_LAYERS: tuple[AuxiliaryLayer, ...] = get_args(AuxiliaryLayer)


HostLike = str | Sequence[str]
"""Layers that are left to the host: a name or pattern such as "conv*", or several."""


ValuesLike = Sequence[str] | MappingOf[str, object]
"""Values of the hardware by dotted name: ["timing.adc_ns=2"], or {"timing.adc_ns": 2}."""


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
    """

    input_shapes: InputShapes | None
    input_values: InputValues | None
    allow_partial: bool


class MappedArguments(NetworkArguments, total=False):
    """Arguments that say what a network is laid on.

    Parameters
    ----------
    hardware
        A Hardware, a TOML file, a dict of its form, or the name of a preset ("isaac").
    crossbar
        Wordlines and bitlines of an array, "256x256" or (256, 256), instead of the hardware's.
    set_values
        Values of the hardware that are replaced: {"timing.columns_per_adc": 16}, or ["timing.adc_ns=2"].
    mapping
        Layout of weights on arrays: "im2col", "kernel_split", "whole_kernel", or "sdk", which chooses a block
        of windows for every layer.
    fold
        Fold filters first, with mapping "kernel_split".
    fc
        Who computes linear layers on a single pixel: the "host", untimed, or arrays ("crossbar").
    host
        Layers that are left to the host: a name or a pattern such as "conv*", or a list of them.
    """

    hardware: HardwareLike
    crossbar: CrossbarLike | None
    set_values: ValuesLike | None
    mapping: Mapping
    fold: bool
    fc: FullyConnected
    host: HostLike | None


Divided = Literal["width", "windows"]
"""Number that copies must divide: windows (blocks, with modes) of a row of the output, or all of them."""
CopiesLike = Sequence[str] | MappingOf[str, object]
"""Limits of copies: ["conv1=4", "conv*=2..8"], or {"conv1": 4, "conv*": "2..8", "fc": (1, 2)}.

Any object as a limit, so that a wrong one is named with its layer.
"""


AtMostLike = Sequence[str] | MappingOf[str, float | str]
"""Limits of quantities: ["area_um2=2mm2"], or {"latency_ns": "10us", "energy_pj": 1e6}."""


class CaseArguments(MappedArguments, total=False):
    """Arguments of an allocation.

    Parameters
    ----------
    latency_table
        Measured step times instead of the hardware's: a LatencyTable, a file, or a dict of its form.
    copies
        Copies of layers that are held or limited, by name or pattern: {"conv1": 4, "conv*": "2..8"}.
    at_most
        Limits of area_um2, energy_pj, power_mw, latency_ns and interval_ns: {"area_um2": "2mm2"}.
    copies_divide
        Of what copies must be a divisor: windows of a row of the output ("width"), or all ("windows").
    """

    latency_table: LatencyTableLike | None
    copies: CopiesLike | None
    at_most: AtMostLike | None
    copies_divide: Divided | None


class SearchArguments(CaseArguments, total=False):
    """Arguments of an allocation and of its search.

    Parameters
    ----------
    seed
        Of what the search draws: equal seeds give equal results.
    work
        Units of search, 0.05 s each on a reference core, before it ends without a proof.
    time_limit_s
        Seconds by the clock after which the search ends; the result then depends on the machine.
    """

    seed: int
    work: int
    time_limit_s: float | None


class AllocationArguments(NetworkArguments, total=False):
    """Arguments that replace those of an allocation; None: it stays.

    Parameters
    ----------
    hardware
        A Hardware, a TOML file, a dict of its form, or a preset, instead of the allocation's.
    set_values
        Values of the hardware that are replaced: {"timing.columns_per_adc": 16}, or ["timing.adc_ns=2"].
    mapping
        Layout of weights on arrays, instead of the allocation's.
    fc
        Who computes linear layers on a single pixel, instead of what the allocation says.
    host
        Layers that are left to the host, instead of the allocation's.
    """

    hardware: HardwareLike | None
    set_values: ValuesLike | None
    mapping: Mapping | None
    fc: FullyConnected | None
    host: HostLike | None


MAX_ARRAYS = 2**40
"""Arrays of a budget at most: far above any chip, and more than all copies of a network can use."""
DEFAULT_WORK = 100
"""Units of search: 5 s of a reference core."""
DEFAULTS: SearchArguments = {
    "hardware": "plain",
    "crossbar": None,
    "set_values": None,
    "mapping": "im2col",
    "fold": False,
    "fc": "host",
    "host": None,
    "latency_table": None,
    "copies": None,
    "at_most": None,
    "copies_divide": None,
    "seed": 0,
    "work": DEFAULT_WORK,
    "time_limit_s": None,
    "input_shapes": None,
    "input_values": None,
    "allow_partial": False,
}
"""Defaults of shared arguments."""
SHARED: dict[str, tuple[type, dict[str, Any]]] = {
    kind.__name__: (kind, {name: value for name, value in defaults.items() if name in kind.__annotations__})
    for kind, defaults in (
        (NetworkArguments, dict(DEFAULTS)),
        (MappedArguments, dict(DEFAULTS)),
        (CaseArguments, dict(DEFAULTS)),
        (SearchArguments, dict(DEFAULTS)),
        (AllocationArguments, {**DEFAULTS, "hardware": None, "mapping": None, "fc": None}),
    )
}
"""Arguments that calls share by the name of their TypedDict, with their defaults."""
UNPACKED = re.compile(r"Unpack\[(\w+)\]")
"""Annotation by which a call says that it takes the arguments of a TypedDict."""


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
    own = sections.pop("Parameters", "")
    shared = _shared_words(kind)
    missing = [
        words for name, words in shared.items() if not re.search(rf"^(?:\S.*, )?{name}(?:,.*)?$", own, re.M)
    ]
    ordered = {"": sections.pop(""), "Parameters": "\n".join([*([own] if own else []), *missing])}
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
    """Return what docstrings say of each argument of a TypedDict, its name in the first line."""
    taken, words = SHARED[kind][1], dict[str, str]()
    for each in (NetworkArguments, MappedArguments, CaseArguments, SearchArguments, SHARED[kind][0]):
        rows = re.split(r"\n(?=\S)", _sections(each.__doc__ or "")["Parameters"])
        words |= {row.partition("\n")[0]: row for row in rows}
    return {name: words[name] for name in taken}


def signature_of(call: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a call; the arguments that it shares with others stand last, by keyword."""
    signature, parameters = inspect.signature(call), list[inspect.Parameter]()
    for parameter in signature.parameters.values():
        shared = UNPACKED.fullmatch(str(parameter.annotation))
        if parameter.kind is not parameter.VAR_KEYWORD or shared is None:
            parameters.append(parameter)
            continue
        kind, defaults = SHARED[shared[1]]
        parameters += [
            inspect.Parameter(
                name,
                parameter.KEYWORD_ONLY,
                default=default,
                annotation=kind.__annotations__[name].__forward_arg__,
            )
            for name, default in defaults.items()
        ]
    return signature.replace(parameters=parameters)
