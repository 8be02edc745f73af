"""Options that several commands share, with their help texts, and how their texts are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import typer

from rramalloc import choices
from rramalloc.choices import FullyConnected, SharedWeights
from rramalloc.cli import complete
from rramalloc.errors import SpecError
from rramalloc.units import area, energy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rramalloc.hardware.hardware import Hardware as HardwareRecord
    from rramalloc.mapping.options import MappingOptions
    from rramalloc.network.coverage import Coverage
    from rramalloc.results.allocation import Allocation
    from rramalloc.results.inspection import Inspection
    from rramalloc.results.simulation import Simulation

_DIMENSIONS = 8


Format = Literal["table", "json", "csv"]
"""How results are printed."""

NetworkArgument = Annotated[
    str,
    typer.Argument(
        metavar="NETWORK", autocompletion=complete.networks,
        help="A .json, .onnx, .csv or .pt2 file, or a shipped name.",
    ),
]  # fmt: skip
AllocationFile = Annotated[
    str,
    typer.Option(
        "--allocation", metavar="FILE", help='Allocation, or {"replication": {...}, "block": {...}}.'
    ),
]
Hardware = Annotated[
    str,
    typer.Option(
        "--hardware", metavar="FILE|PRESET", autocompletion=complete.presets, help="Hardware description."
    ),
]
OwnHardware = Annotated[
    str | None,
    typer.Option(
        "--hardware", metavar="FILE|PRESET", autocompletion=complete.presets,
        help="Instead of the allocation's.",
    ),
]  # fmt: skip
Crossbar = Annotated[
    str | None, typer.Option("--crossbar", metavar="ROWSxCOLS", help="Size of one array, e.g. 128x128.")
]
Fc = Annotated[FullyConnected, typer.Option("--fc", help="Where classifiers run: untimed host, or arrays.")]
Mapping = Annotated[choices.Mapping, typer.Option("--mapping", help="How weights lie on crossbars.")]
Shared = Annotated[
    SharedWeights, typer.Option("--shared", help="Weights that several layers use: for each, or once.")
]
OwnShared = Annotated[SharedWeights | None, typer.Option("--shared", help="Instead of the allocation's.")]
OwnFc = Annotated[FullyConnected | None, typer.Option("--fc", help="Instead of the allocation's.")]
OwnMapping = Annotated[choices.Mapping | None, typer.Option("--mapping", help="Instead of the allocation's.")]
Fold = Annotated[
    bool, typer.Option("--fold", help="Fold filters to the fewest arrays first; needs kernel_split.")
]
InputShape = Annotated[
    list[str] | None,
    typer.Option("--input-shape", metavar="NAME=1,3,224,224", help="Shape of a dynamic ONNX input."),
]
AllowPartial = Annotated[
    bool, typer.Option("--allow-partial", help="Take operators whose weights cannot be modelled as barriers.")
]
OutputFormat = Annotated[Format, typer.Option("--format", help="How the result is printed.")]
Output = Annotated[
    str | None, typer.Option("-o", "--output", metavar="FILE", help="Also write the result as JSON.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the search.")]
Work = Annotated[
    int, typer.Option("--work", metavar="N", help="Most units of search, 0.05 s of a core each.")
]
TimeLimit = Annotated[
    float | None, typer.Option("--time-limit", metavar="S", help="Stop by the clock: machine-dependent.")
]
Figure = Annotated[
    str | None, typer.Option("--figure", metavar="FILE", help="Also draw it: .svg, .png or .pdf.")
]
LatencyTable = Annotated[
    str | None,
    typer.Option("--latency-table", metavar="TABLE", help="Measured step times, from `rramalloc latency`."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes on stderr.")]


def mapping_words(chosen: MappingOptions | Inspection) -> str:
    """How a result says its mapping: "kernel_split, folded"."""
    return f"{chosen.mapping}, folded" if chosen.fold else chosen.mapping


class _Covering(Protocol):
    @property
    def coverage(self) -> Coverage | None: ...


def energy_lines(result: Allocation | Simulation) -> Iterator[tuple[str, str]]:
    """Energy and area of an allocation, for hardware that says more than steps."""
    if result.hardware.energy is None:
        if result.hardware.timing is not None:
            yield "energy", "not given by the hardware"
        return
    given = (result.energy_pj, result.dynamic_pj, result.static_pj)
    total, dynamic, static = ("not given" if value is None else energy(value) for value in given)
    yield "energy", f"{total} an input (dynamic: {dynamic}, static: {static})"
    yield "EDP", "not given" if result.edp is None else f"{result.edp:.4g} pJ ns"
    yield "area", "not given" if result.area_um2 is None else area(result.area_um2)


def coverage_line(result: _Covering) -> list[tuple[str, str]]:
    """How much of the network a result is about, as the last line of its summary."""
    return [] if result.coverage is None else [("coverage", result.coverage.summary)]


def hardware_words(hardware: HardwareRecord, mapping: str) -> str:
    """How a result says its hardware; mapping: in words."""
    return f"{hardware.name}, arrays of {hardware.crossbar.size}, mapping {mapping}"


def parse_input_shapes(texts: list[str] | None) -> dict[str, tuple[int, ...]]:
    """{"images": (1, 3, 224, 224)} from ["images=1,3,224,224"]. Raises SpecError."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts or []:
        name, equals, sizes = text.rpartition("=")
        parts = sizes.split(",")
        if not equals or not name or len(parts) > _DIMENSIONS or not all(_is_size(part) for part in parts):
            raise SpecError(
                "--input-shape", f"must be NAME=SIZES such as images=1,3,224,224, got {text[:60]!r}"
            )
        if name in shapes:
            raise SpecError("--input-shape", f"{name[:60]!r} is given twice")
        shapes[name] = tuple(int(part) for part in parts)
    return shapes


def budget_of(text: str | None) -> int | str | None:
    """1024 from "1024"; a multiple of the minimum such as "x2" stays a text."""
    return text if text is None or text[:1] in "xX" else int(text)


def check_budget(text: str | None) -> str | None:
    """Refuse what is neither a number nor begins as a multiple of the minimum."""
    try:
        budget_of(text)
    except ValueError:
        raise typer.BadParameter("must be a number such as 1024, or x2 for twice the minimum") from None
    return text


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """(64, 6, 6, 4) from "64,6,6,4". Raises SpecError."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > _DIMENSIONS or not all(
        part.isascii() and part.isdigit() and len(part) <= 10 for part in parts
    ):
        raise SpecError(option, f"must be whole numbers such as 2,2, got {text[:60]!r}")
    return tuple(int(part) for part in parts)


def _is_size(text: str) -> bool:
    return text.strip().isascii() and text.strip().isdigit() and len(text) <= 10 and int(text) > 0
