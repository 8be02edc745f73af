"""`fold`: one filter folded to an alignment, or every layer of a network to the fewest arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rramalloc.errors import SolverError, SpecError, UnsupportedError
from rramalloc.hardware.loader import DEFAULT_PRESET, HardwareLike, as_hardware
from rramalloc.importers import InputShapes, NetworkLike, as_network
from rramalloc.mapping.demand import demands, filter_of, fold_refusal, folds
from rramalloc.mapping.fold import UNFOLDED, Filter, Fold
from rramalloc.mapping.fold_check import equal_on_random_data
from rramalloc.mapping.fold_numeric import output_extent
from rramalloc.mapping.fold_rules import Rule, aligned_inputs, fold_to, raised
from rramalloc.mapping.options import DEFAULT_MAPPING, FullyConnected, Mapping
from rramalloc.network.geometry import MAX_EXTENT, Pads, Pair
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Stage
from rramalloc.records import brief, is_whole
from rramalloc.results.allocation import NetworkId
from rramalloc.results.folded import FilterFold, FoldedLayer, NetworkFold
from rramalloc.results.optimize import left_to_host
from rramalloc.timing.stage_graph import StageGraph


def fold_filter(
    shape: Sequence[int],
    *,
    align: int,
    stride: Sequence[int] = (1, 1),
    rule: Rule = "source",
    input_size: Sequence[int] | None = None,
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    check: bool = False,
    seed: int = 0,
) -> FilterFold:
    """Fold a filter until it fills `align` input channels, split over height and width by a rule.

    shape: (C_o, K_h, K_w, C_i), C_i of one group; stride, dilation, input_size: (height, width);
    padding: one number, (height, width) or (top, left, bottom, right); check: prove it on random data.
    Raises SpecError, UnknownNameError; UnsupportedError if a check is too large; SolverError if it fails.
    Source: SYSTEMS.md 3; outputs are aligned like inputs, and groups are folded each for itself.

    >>> fold_filter((64, 4, 4, 4), stride=(4, 4), align=64).filter
    (64, 1, 1, 64)
    """
    outputs, high, wide, inputs = _numbers("filter", shape, (4,))
    filter_ = Filter(
        outputs=outputs, kernel=(high, wide), inputs=inputs, stride=_pair("stride", stride),
        dilation=_pair("dilation", dilation), groups=groups,
    )  # fmt: skip
    fold, pads = fold_to(filter_, align, rule), _pads(padding)
    extent = None if input_size is None else _pair("input", input_size)
    output = None if extent is None else output_extent(fold, extent, pads)
    area = 1 if output is None else output[0] * output[1]
    columns = raised(outputs // groups, align) * groups * area
    before = columns * raised(inputs, align) * high * wide
    after = columns * raised(fold.channels, align) * fold.kernel[0] * fold.kernel[1]
    some = (high + 4 * filter_.stride[0], wide + 4 * filter_.stride[1])
    return FilterFold(
        **_described(filter_, fold),
        rule=rule,
        align=align,
        n_total=aligned_inputs(inputs, align)[1],
        output=output,
        work_before=before,
        work_after=after,
        saving=1 - after / before,
        checked=_proven(fold, extent or some, pads, seed, "filter") if check else None,
    )


def fold_network(
    network: NetworkLike,
    *,
    hardware: HardwareLike = DEFAULT_PRESET,
    crossbar: str | None = None,
    mapping: Mapping = "kernel_split",
    fc: FullyConnected = "host",
    input_shapes: InputShapes | None = None,
    check: bool = False,
    seed: int = 0,
) -> NetworkFold:
    """Every stage with the fold that takes the fewest arrays, the choice of `optimize --fold`.

    check: prove every fold on random data, on small inputs.
    Raises SpecError unless the mapping is `kernel_split`; FileError, UnknownNameError, UnsupportedError;
    SolverError if a check fails.
    """
    source = as_network(network, input_shapes)
    machine = as_hardware(hardware, crossbar)
    graph = StageGraph.build(source, fc)
    stages = [graph.stages[index] for index in graph.network_order]
    options = DEFAULT_MAPPING.changed(mapping=mapping, fc=fc, fold=True)
    sizes = folds(source, stages, machine, options) or []
    before = demands(source, stages, machine, options.changed(fold=False))
    after = demands(source, stages, machine, options)
    layers = []
    for stage, size, whole, folded in zip(stages, sizes, before, after, strict=True):
        tried = _checked(source, stage, size, seed) if check and size != UNFOLDED else None
        layers.append(_layer(source, stage, size, (whole, folded), tried))
    return NetworkFold(
        network=NetworkId.of(source),
        hardware=machine,
        mapping=mapping,
        demand_before=sum(before),
        demand_after=sum(after),
        saving=1 - sum(after) / sum(before),
        layers=tuple(layers),
        host=left_to_host(source, graph),
        warnings=source.warnings,
    )


def _layer(
    network: Network, stage: Stage, size: Pair, demand: Pair, tried: tuple[bool | None, str] | None
) -> FoldedLayer:
    """demand: before and after; tried: what a check found, None if there was none."""
    whole = filter_of(network, stage)
    fold = Fold.of(whole, size) if whole.refusal is None else None
    checked, reason = tried or (None, fold_refusal(network, stage) or "")
    return FoldedLayer(
        **_described(whole, fold),
        name=stage.name,
        demand_before=demand[0],
        demand_after=demand[1],
        saving=1 - demand[1] / demand[0],
        checked=checked,
        reason=reason,
    )


def _described(whole: Filter, fold: Fold | None) -> dict[str, Any]:
    """Fields of Folded; None: a dilated filter, which stays as it is."""
    shape = whole.shape if fold is None else fold.shape
    n_h, n_w = UNFOLDED if fold is None else fold.size
    return {
        "filter_before": whole.shape,
        "stride_before": whole.stride,
        "groups": whole.groups,
        "n_h": n_h,
        "n_w": n_w,
        "filter": shape,
        "stride": whole.stride if fold is None else fold.stride,
        "dilation": whole.dilation if fold is None else fold.dilation,
        "padding_added": 0 if fold is None else fold.padding_added,
        "overlap": (0, 0) if fold is None else fold.overlap,
        "exact": fold is None or fold.exact,
    }


def _checked(network: Network, stage: Stage, size: Pair, seed: int) -> tuple[bool | None, str]:
    """(whether shown equal, why it was not tried). Raises SolverError."""
    shape = network.input_shape(stage)
    pads = stage.geometry.pads if isinstance(stage, Conv) else Pads(0, 0, 0, 0)
    fold = Fold.of(filter_of(network, stage), size)
    try:
        return _proven(fold, (shape.height, shape.width), pads, seed, stage.name), ""
    except UnsupportedError as error:
        return None, f"not checked: {error.reason}"


def _proven(fold: Fold, extent: Pair, pads: Pads, seed: int, where: str) -> bool:
    if not equal_on_random_data(fold, extent, pads, seed):
        raise SolverError(f"{where[:60]}: folded and direct convolution differ on random data; please report")
    return True


def _pads(padding: Sequence[int]) -> Pads:
    sizes = _numbers("padding", padding, (1, 2, 4))
    for size in sizes:
        if not is_whole(size, 0, MAX_EXTENT):
            raise SpecError("padding", f"must be from 0 to {MAX_EXTENT}, got {brief(size)}")
    return Pads(*(sizes * (4 // len(sizes))))


def _pair(where: str, sizes: Sequence[int]) -> Pair:
    high, wide = _numbers(where, sizes, (2,))
    for size in (high, wide):
        if not is_whole(size, 1, MAX_EXTENT):
            raise SpecError(where, f"must be from 1 to {MAX_EXTENT}, got {brief(size)}")
    return high, wide


def _numbers(where: str, sizes: Sequence[int], counts: tuple[int, ...]) -> tuple[int, ...]:
    if len(sizes) not in counts:
        some = " or ".join(str(count) for count in counts)
        raise SpecError(where, f"takes {some} numbers, got {len(sizes)}")
    return tuple(sizes)
