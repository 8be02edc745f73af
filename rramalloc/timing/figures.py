"""Energy, area and rates of an allocation: one record, whose fields all results and rows of sweeps have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from rramalloc.network.counts import macs
from rramalloc.network.node import Stage
from rramalloc.records import Record, absent
from rramalloc.units import energy

if TYPE_CHECKING:  # they load compiled code, which a sweep's driver does without
    from rramalloc.timing.access import Absolute
    from rramalloc.timing.stage_graph import StageGraph


@dataclass(frozen=True, kw_only=True)
class LayerFigures:
    """Energy [pJ] of one layer for one input, and area of its arrays; None where not given.

    array_pj, adc_pj, row_pj: of reads, conversions and driven wordlines, 0 for a component that the hardware
    counts within read_pj; moved_pj: of bytes between tiles; leakage_pj, which is also static_pj: of all that
    leaks; digital_pj: of products in digital units, left out of files without such units; dynamic_pj: all
    but the leakage in sum.
    """

    array_pj: float | None = None
    adc_pj: float | None = None
    row_pj: float | None = None
    moved_pj: float | None = None
    digital_pj: Annotated[float | None, Field(exclude_if=absent)] = None
    leakage_pj: float | None = None
    dynamic_pj: float | None = None
    static_pj: float | None = None
    energy_pj: float | None = None
    area_um2: float | None = None


@dataclass(frozen=True, kw_only=True)
class Figures(LayerFigures):
    """Figures of an allocation, which all results about it have: a new one stands here and in `totals` alone.

    The unit of each follows from the end of its name (rramalloc/units.py). Energy and area are of all layers,
    with the leakage of unused arrays and the periphery of the tiles in use; edp: energy times latency
    [pJ ns]; chip_area_um2: of the whole chip.

    stream_energy_pj, stream_power_mw: energy of an input, and power, where inputs come at the interval or at
    a given rate; tops: 2 * multiply-accumulates on arrays and digital units * inputs a second / 1e12;
    tops_per_w: that over the power, of inputs in the stream. Source: docs/sources/model.md 12.
    """

    edp: float | None = None
    chip_area_um2: float | None = None
    stream_energy_pj: float | None = None
    stream_power_mw: float | None = None
    tops: float | None = None
    tops_per_w: float | None = None


class EnergyArea(Record, Figures):
    """Result with the figures of an allocation.

    They stand last in files: the rates always, the others only where the hardware gives one of them.
    """

    @model_serializer(mode="wrap")
    def _with_figures_last(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = handler(self)
        figures = {name: document.pop(name) for name in EnergyArea.model_fields if name in document}
        rates = {name: figures.pop(name) for name in RATES if name in figures}
        given = any(value is not None for value in figures.values())
        return document | (figures if given else {}) | rates


class Summed(Protocol):
    """Figures by layer that have a total, as `Metrics`, which loads compiled code."""

    @property
    def total(self) -> EnergyArea:
        """Sums over all layers."""
        ...


RATES = ("stream_energy_pj", "stream_power_mw", "tops", "tops_per_w")
"""Names of the fields of inputs that come one after another, which stand in every file."""
FIGURES = tuple(EnergyArea.model_fields)
"""Names of the figures of an allocation."""
ENERGY_AREA = tuple(name for name in FIGURES if name not in RATES)
"""Names of the fields of energy of one input, and of area."""


def energy_parts(figures: EnergyArea) -> str:
    """Return the parts of an energy in words: its components if ADCs or rows are given separately."""
    parts = {"dynamic": figures.dynamic_pj, "static": figures.static_pj}
    if figures.adc_pj or figures.row_pj:
        parts = {
            "array": figures.array_pj,
            "ADC": figures.adc_pj,
            "rows": figures.row_pj,
            "moved": figures.moved_pj,
            "leakage": figures.leakage_pj,
        }
    if figures.digital_pj is not None:
        parts["digital"] = figures.digital_pj
    return ", ".join(f"{name}: {'not given' if pj is None else energy(pj)}" for name, pj in parts.items())


def totals(
    metrics: Summed | None, absolute: Absolute, graph: StageGraph, rate_per_s: float | None = None
) -> dict[str, float | None]:
    """Return energy, area and rates by the names of their fields in results, None where not given.

    metrics: None without [energy]; absolute: of the same allocation; graph: its stages;
    rate_per_s: inputs a second, those of its throughput if left out. Source: docs/sources/model.md 12.
    """
    sums = EnergyArea() if metrics is None else metrics.total
    given: dict[str, float | None] = sums.model_dump()
    latency_ns, throughput = absolute.latency_ns, absolute.throughput_per_s
    if latency_ns is None or throughput is None:
        return given
    products = 2 * sum(macs(graph.network, stage) for stage in graph.stages if isinstance(stage, Stage))
    rate_per_s = rate_per_s or throughput
    given["tops"] = products * rate_per_s / 1e12
    if sums.dynamic_pj is not None and sums.static_pj is not None:
        period_ns = 1e9 / rate_per_s
        stream_pj = sums.dynamic_pj + sums.static_pj / latency_ns * period_ns
        given["stream_energy_pj"] = stream_pj
        given["stream_power_mw"] = stream_pj / period_ns
        given["tops_per_w"] = products / stream_pj if stream_pj else None
    return given
