"""Arguments of an allocation that calls and commands share: each in one place.

What they are checked against, said of and shown as follows from the TypedDict (`rramalloc.choices`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rramalloc.choices import (
    DEFAULT_WORK,
    NETWORK_DEFAULTS,
    AtMostLike,
    CopiesLike,
    Divided,
    FullyConnected,
    HostLike,
    Mapping,
    NetworkArguments,
    ValuesLike,
    share_arguments,
)
from rramalloc.hardware.preset_files import DEFAULT_PRESET

if TYPE_CHECKING:
    from rramalloc.hardware.loader import HardwareLike
    from rramalloc.hardware.tables import CrossbarLike
    from rramalloc.timing.latency_table import LatencyTableLike


class MappedArguments(NetworkArguments, total=False):
    """Arguments for the hardware of a network and its mapping onto it.

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


class TargetArguments(SearchArguments, total=False):
    """Arguments of a search for what reaches a target.

    Parameters
    ----------
    target
        Latency in steps or ticks that the fewest arrays reach; it makes the objective "arrays", as do the
        others.
    target_ns
        Latency in ns that the fewest arrays reach.
    target_interval
        Interval between inputs that the fewest arrays reach: steps or ticks, or a time such as "10us".
    target_throughput
        Inputs a second that the fewest arrays reach.
    placed
        Count transfer between the tiles in which copies would be placed.
    """

    target: int | None
    target_ns: float | str | None
    target_interval: int | str | None
    target_throughput: float | str | None
    placed: bool


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


DEFAULTS: TargetArguments = {
    "hardware": DEFAULT_PRESET,
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
    "target": None,
    "target_ns": None,
    "target_interval": None,
    "target_throughput": None,
    "placed": False,
    **NETWORK_DEFAULTS,
}
"""Defaults of shared arguments."""
for kind in (MappedArguments, CaseArguments, SearchArguments, TargetArguments):
    share_arguments(kind, DEFAULTS)
share_arguments(AllocationArguments, {**DEFAULTS, "hardware": None, "mapping": None, "fc": None})
