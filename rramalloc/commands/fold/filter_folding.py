"""`fold`: one filter folded to an alignment, or every layer of a network to the fewest arrays.

In the ONNX file of a folded network a convolution becomes Pad, one strided Slice per pixel that is folded
into another, Concat along the channels, and the convolution of the folded weights without padding. Its
output is the same tensor.
Source: docs/sources/companions.md 3.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from rramalloc.allocation.allocation import NetworkId, PositiveCount, Product
from rramalloc.choices import (
    NODE_NAMES,
    FoldMapping,
    FoldRule,
    FullyConnected,
    HostLike,
    Mapping,
    NetworkArguments,
    ValuesLike,
)
from rramalloc.errors import SolverError, SpecError, UnsupportedError
from rramalloc.files import check_writable, write_bytes
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import HardwareLike, as_hardware
from rramalloc.hardware.preset_files import DEFAULT_PRESET
from rramalloc.importers import NetworkLike, network_of
from rramalloc.mapping.demand import Storage, demands, filter_of, fold_refusal, folds
from rramalloc.mapping.fold import (
    MAX_ALIGN,
    UNFOLDED,
    Filter,
    Fold,
    aligned_inputs,
    equal_on_random_data,
    fold_to,
    fold_weights,
    folded_extent,
    output_extent,
    raised_to_multiple,
)
from rramalloc.mapping.options import DEFAULT_MAPPING
from rramalloc.network.coverage import Coverage
from rramalloc.network.geometry import MAX_EXTENT, Pads, Pair
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Name, Stage
from rramalloc.records import Record, check_range
from rramalloc.result import AnswerRecord
from rramalloc.search.menu import stage_modes
from rramalloc.timing.stage_graph import StageGraph
from rramalloc.units import counted, share

_LEAST_OPSET = 11
"""First opset in which Pad and Slice take tensors as inputs."""


def save_folded_onnx(
    source: str | os.PathLike[str], network: Network, folded: NetworkFold, output: str | os.PathLike[str]
) -> tuple[str, ...]:
    """Write an ONNX file with its convolutions folded.

    Parameters
    ----------
    source
        The ONNX file from which `network` was read; its weights are folded.
    folded
        How, as `fold` says.

    Returns
    -------
    tuple[str, ...]
        Layers that stay as they are although they could be folded, and why.

    Raises
    ------
    FileError, SpecError
        No ONNX file, an opset below 11, or it cannot be written.
    """
    from onnx import numpy_helper

    from rramalloc.importers.onnx.graph import decode, graph_of, inlined

    where = os.fspath(source)
    if Path(where).suffix.lower() != ".onnx":
        raise SpecError(
            where, "is no ONNX file, so there is none to write: give the .onnx file of the network"
        )
    check_writable(output)
    model = inlined(decode(Path(where)), where)
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    if opset < _LEAST_OPSET:
        raise SpecError(where, f"has opset {opset}, folding needs {_LEAST_OPSET} or newer: convert it first")
    folds = {layer.name: layer.fold for layer in folded.layers if layer.size is not None}
    graphs = [graph_of(model, where, names) for names in NODE_NAMES]
    graph = max(graphs, key=lambda graph: len(folds.keys() & set(graph.names)))
    protos = dict(zip(graph.names, graph.nodes, strict=True))
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    stages = {stage.name: stage for stage in network.stages}
    replaced: dict[str, list[Any]] = {}
    left = []
    for name, fold in folds.items():
        proto = protos.get(name)
        stage = stages[name]
        tensor = None if proto is None or len(proto.input) < 2 else tensors.get(proto.input[1])
        if proto is None or proto.op_type != "Conv" or not isinstance(stage, Conv):
            left.append(f"{name}: is no Conv in the file")
        elif tensor is None or tensor.data_location:
            left.append(f"{name}: its weights are not in the file")
        else:
            weights = numpy_helper.to_array(tensor)
            if weights.ndim != 4:
                left.append(f"{name}: its weights have {weights.ndim} dimensions, not 4")
                continue
            replaced[proto.output[0]] = list(_nodes(model, proto, network, stage, fold, weights))
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        model.graph.node.extend(replaced.get(node.output[0] if node.output else "", [node]))
    used = {name for node in model.graph.node for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in used or tensor.name not in tensors]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    write_bytes(output, model.SerializeToString(deterministic=True))
    return tuple(left)


def _nodes(
    model: Any, proto: Any, network: Network, stage: Conv, fold: Fold, weights: npt.NDArray[Any]
) -> Iterator[Any]:
    """Yield the nodes that take the place of a convolution, in order."""
    from onnx import helper, numpy_helper

    stem = f"{proto.output[0]}_folded"

    def constant(part: str, values: npt.NDArray[Any]) -> str:
        model.graph.initializer.append(numpy_helper.from_array(values, f"{stem}_{part}"))
        return f"{stem}_{part}"

    shape = network.input_shape(stage)
    pads = stage.geometry.pads
    grid = folded_extent(fold, (shape.height, shape.width), pads)
    before = [pads.along(axis)[0] for axis in (0, 1)]
    covered = [(grid[axis] - 1) * fold.step[axis] + fold.size[axis] for axis in (0, 1)]
    after = [max(0, covered[axis] - before[axis] - (shape.height, shape.width)[axis]) for axis in (0, 1)]
    padding = constant("pads", np.array([0, 0, *before, 0, 0, *after], dtype=np.int64))
    yield helper.make_node("Pad", [proto.input[0], padding], [f"{stem}_padded"], f"{stem}_pad")
    axes = constant("axes", np.array([2, 3]))
    steps = constant("steps", np.array(fold.step, dtype=np.int64))
    slices = []
    for row, column in product(range(fold.size[0]), range(fold.size[1])):
        starts = np.array([row, column], dtype=np.int64)
        ends = starts + (np.array(grid) - 1) * np.array(fold.step) + 1
        name = f"{stem}_{row}_{column}"
        ranges = [constant(f"{row}_{column}_starts", starts), constant(f"{row}_{column}_ends", ends)]
        yield helper.make_node("Slice", [f"{stem}_padded", *ranges, axes, steps], [name], f"{name}_slice")
        slices.append(name)
    pixels = f"{stem}_pixels"
    yield helper.make_node("Concat", slices, [pixels], f"{stem}_concat", axis=1)
    groups = fold.filter.groups
    inputs = fold.filter.inputs
    count = fold.size[0] * fold.size[1]
    if groups > 1:  # channels of one group stand together
        order = np.arange(count * groups * inputs).reshape(count, groups, inputs).swapaxes(0, 1).ravel()
        places = constant("groups", order.astype(np.int64))
        yield helper.make_node("Gather", [pixels, places], [f"{pixels}_grouped"], f"{stem}_gather", axis=1)
        pixels = f"{pixels}_grouped"
    filters = fold_weights(np.moveaxis(weights, 1, -1), fold)
    stored = constant("weights", np.ascontiguousarray(np.moveaxis(filters, -1, 1)))
    window = {"kernel_shape": fold.kernel, "strides": fold.stride, "dilations": fold.dilation}
    read = [pixels, stored, *proto.input[2:]]
    yield helper.make_node("Conv", read, [proto.output[0]], proto.name, group=groups, **window)


FilterShape = tuple[PositiveCount, PositiveCount, PositiveCount, PositiveCount]
FoldSize = tuple[PositiveCount, PositiveCount]


class Folded(Record):
    """A filter before and after folding; filters are (C_o, K_h, K_w, C_i), C_i of one group.

    n_h, n_w: pixels folded into one; padding_added: zeros added to the kernel of a pair of channels;
    overlap: pixels that neighbouring windows of n share; folded_input: (height, width, channels of all
    groups) of the input that the folded filter reads, padding included, None if the input or a fold is not
    given; exact: whether the result is provably the same.
    """

    filter_before: FilterShape
    stride_before: FoldSize
    groups: PositiveCount
    n_h: PositiveCount
    n_w: PositiveCount
    filter: FilterShape
    stride: FoldSize
    dilation: FoldSize
    padding_added: int
    overlap: tuple[int, int]
    folded_input: tuple[PositiveCount, PositiveCount, PositiveCount] | None = None
    exact: bool

    @property
    def fold(self) -> Fold:
        """Fold for real weights and inputs. Raises SpecError for a dilated kernel."""
        outputs, high, wide, inputs = self.filter_before
        pairs = {"kernel": (high, wide), "stride": self.stride_before}
        pairs["dilation"] = (1, 1) if self.n_h * self.n_w > 1 else self.dilation
        filter_ = Filter(outputs=outputs, inputs=inputs, groups=self.groups, **pairs)
        size = (self.n_h, self.n_w)
        return Fold(filter=filter_, size=size, inputs=self.filter[3] // (self.n_h * self.n_w))


class FilterFold(AnswerRecord, Folded):
    """A filter folded until it fills `align` input channels.

    rule: as asked; chosen: the rule that made the fold, "unfolded" if none saves work; align_outputs: to
    which output channels are raised; n_total: pixels that fill the alignment; output: height and width, None
    without an input; work_before, work_after: multiplications with channels raised to the alignment, for one
    input, or for one output pixel without an input; saving: 1 - after / before; checked: True if shown equal
    on random data, None if not tried.
    """

    format: Literal["rramalloc-fold/1"] = "rramalloc-fold/1"
    rule: FoldRule
    chosen: str
    align: PositiveCount
    align_outputs: PositiveCount
    n_total: PositiveCount
    output: FoldSize | None
    work_before: Product
    work_after: Product
    saving: float
    checked: bool | None

    def _headline(self) -> tuple[str, str]:
        before, after = (" x ".join(map(str, size)) for size in (self.filter_before, self.filter))
        return "", f"filter {before} folded to {after}, {share(self.saving)} of the work saved"


class FoldedLayer(Folded):
    """A stage as it is folded for the fewest arrays; n_h = n_w = 1 if folding saves none.

    arrays_before, arrays_after: of one copy; saving: 1 - after / before; reason: why it is not
    folded though it might, empty otherwise; checked: as in FilterFold.
    mapping: how it is laid out; block, copies: with mapping `sdk`, the windows (height, width) of a copy and
    the copies that share the arrays of arrays_after; array_steps_before, array_steps_after: arrays times the
    steps in which they compute one input.
    """

    name: Name
    arrays_before: PositiveCount
    arrays_after: PositiveCount
    saving: float
    checked: bool | None
    reason: str
    mapping: Mapping = "kernel_split"
    block: FoldSize | None = None
    copies: PositiveCount = 1
    array_steps_before: Product | None = None
    array_steps_after: Product | None = None

    @property
    def size(self) -> Pair | None:
        """(n_h, n_w), None if the layer is not folded."""
        return None if (self.n_h, self.n_w) == UNFOLDED else (self.n_h, self.n_w)


class NetworkFold(AnswerRecord):
    """All stages of a network, in network order.

    arrays_before, arrays_after: of one copy of each; array_steps_before, array_steps_after: sums of
    those of the layers; saving: of array-steps with mapping `best`, else of arrays.
    """

    rows_in = "layers"

    format: Literal["rramalloc-network-fold/2"] = "rramalloc-network-fold/2"
    network: NetworkId
    hardware: Hardware
    mapping: FoldMapping
    arrays_before: PositiveCount
    arrays_after: PositiveCount
    saving: float
    array_steps_before: Product | None = None
    array_steps_after: Product | None = None
    layers: tuple[FoldedLayer, ...]
    host: tuple[str, ...]
    warnings: tuple[str, ...]

    def _headline(self) -> tuple[str, str]:
        return (
            self.network.name,
            f"{counted(self.arrays_before, 'array')} before folding, {self.arrays_after:,} after",
        )


def fold_filter(
    shape: Sequence[int],
    *,
    align: int,
    stride: Sequence[int] = (1, 1),
    rule: FoldRule = "least_work",
    align_outputs: int | None = None,
    th1: int | None = None,
    input_size: Sequence[int] | None = None,
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    check: bool = False,
    seed: int = 0,
) -> FilterFold:
    """Fold a filter until it fills `align` input channels, split over height and width by a rule.

    Groups are folded each for itself.

    Parameters
    ----------
    shape
        (C_o, K_h, K_w, C_i), C_i of one group.
    align
        Input channels that the folded filter fills.
    stride
        (height, width).
    rule
        How folded pixels are split over height and width: "least_work", "source", "least_padding",
        "height_first", "width_first" or "balanced".
    align_outputs
        To what output channels are raised; as inputs if left out.
    th1
        Filters of more input channels stay as they are.
    input_size
        (height, width) of the input.
    padding
        One number, (height, width), or (top, left, bottom, right).
    dilation
        (height, width).
    groups
        Groups of channels.
    check
        Prove it on random data.
    seed
        Of the random data.

    Returns
    -------
    FilterFold
        The folded filter, its stride and padding.

    Raises
    ------
    RramallocError
        SpecError, UnknownNameError; UnsupportedError if a check is too large; SolverError if it fails.

    References
    ----------
    docs/sources/companions.md 3.

    Examples
    --------
    >>> fold_filter((64, 4, 4, 4), stride=(4, 4), align=64).filter
    (64, 1, 1, 64)
    """
    outputs, high, wide, inputs = _numbers("filter", shape, (4,))
    pairs = {"stride": _pair("stride", stride), "dilation": _pair("dilation", dilation)}
    filter_ = Filter(outputs=outputs, kernel=(high, wide), inputs=inputs, groups=groups, **pairs)
    fold, chosen = fold_to(filter_, align, rule, th1)
    sides = _numbers("padding", padding, (1, 2, 4), least=0)
    pads = Pads(*(sides * (4 // len(sides))))
    check_range("align_outputs", align_outputs, 1, MAX_ALIGN)
    wide_outputs = align if align_outputs is None else align_outputs
    extent = None if input_size is None else _pair("input", input_size)
    output = None if extent is None else output_extent(fold, extent, pads)
    area = 1 if output is None else output[0] * output[1]
    columns = raised_to_multiple(outputs // groups, wide_outputs) * groups * area
    before = columns * raised_to_multiple(inputs, align) * high * wide
    after = columns * raised_to_multiple(fold.channels, align) * fold.kernel[0] * fold.kernel[1]
    some = (high + 4 * filter_.stride[0], wide + 4 * filter_.stride[1])
    return FilterFold(
        **_described(filter_, fold, None if extent is None else (extent, pads)),
        rule=rule,
        chosen=chosen,
        align=align,
        align_outputs=wide_outputs,
        n_total=aligned_inputs(inputs, align)[1],
        output=output,
        work_before=before,
        work_after=after,
        saving=1 - after / before,
        checked=_proven(fold, extent or some, pads, seed, "filter") if check else None,
    )


def fold(
    network: NetworkLike,
    *,
    hardware: HardwareLike = DEFAULT_PRESET,
    crossbar: str | None = None,
    set_values: ValuesLike | None = None,
    mapping: FoldMapping = "kernel_split",
    fc: FullyConnected = "host",
    host: HostLike | None = None,
    check: bool = False,
    seed: int = 0,
    **given: Unpack[NetworkArguments],
) -> NetworkFold:
    """Fold every stage with the fold that takes the fewest arrays, the choice of `optimize --fold`.

    Parameters
    ----------
    network
        A Network, a file, or the name of a shipped network.
    hardware
        A Hardware, a TOML file, a dict of its form, or the name of a preset.
    crossbar
        Wordlines and bitlines of an array, "256x256", instead of the hardware's.
    set_values
        Values of the hardware that are replaced: {"crossbar.cell_bits": 4}, or ["crossbar.cell_bits=4"].
    mapping
        "kernel_split", or "best": im2col, kernel_split with its fold, whole_kernel or sdk for every layer,
        that with the fewest array-steps, then the fewest arrays, and never more arrays than im2col.
    fc
        Who computes linear layers on a single pixel: the "host", or arrays ("crossbar").
    host
        Layers that are left to the host, by name or pattern.
    check
        Prove every fold on random data, on small inputs.
    seed
        Of the random data.

    Returns
    -------
    NetworkFold
        A row a layer: its fold, and the arrays before and after it.

    Raises
    ------
    SpecError
        The mapping is another one.
    RramallocError
        FileError, UnknownNameError, UnsupportedError; SolverError if a check fails.
    """
    source = network_of(network, given)
    machine = as_hardware(hardware, crossbar, set_values)
    best = mapping == "best"
    options = DEFAULT_MAPPING.changed(
        mapping="kernel_split" if best else mapping, fc=fc, fold=True, host=host
    )
    graph = StageGraph.build(source, options)
    stages = [graph.layers[index] for index in graph.network_order]
    sizes = folds(source, stages, machine, options) or []
    after = demands(source, stages, machine, options)
    before = demands(source, stages, machine, DEFAULT_MAPPING if best else options.changed(fold=False))
    modes = Storage(graph.stages, None, source, machine)
    layers = []
    for index, stage, size, arrays, unfolded in zip(
        graph.network_order, stages, sizes, after, before, strict=True
    ):
        layout = LayerLayout("kernel_split", arrays, size=size)
        windows = int(graph.windows[index])
        if best:
            layout = _best_layout(modes, index, stage, windows, unfolded, layout)
        old = unfolded * windows
        new = layout.array_steps(windows)
        checked, reason = _checked(source, stage, layout.size, seed, wanted=check)
        pixels = filter_of(source, stage)
        layers.append(
            FoldedLayer.gather(
                layout,
                **_described(
                    pixels,
                    None if pixels.refusal else Fold.of(pixels, layout.size),
                    _input_of(source, stage),
                ),
                name=stage.name,
                arrays_before=unfolded,
                arrays_after=layout.arrays,
                saving=1 - (new / old if best else layout.arrays / unfolded),
                checked=checked,
                reason=reason,
                array_steps_before=old if best else None,
                array_steps_after=new if best else None,
            )
        )
    steps_before = sum(layer.array_steps_before or 0 for layer in layers)
    steps_after = sum(layer.array_steps_after or 0 for layer in layers)
    arrays_after = sum(layer.arrays_after for layer in layers)
    return NetworkFold(
        network=NetworkId.of(source),
        hardware=machine,
        mapping=mapping,
        arrays_before=sum(before),
        arrays_after=arrays_after,
        saving=1 - (steps_after / steps_before if best else arrays_after / sum(before)),
        array_steps_before=steps_before or None,
        array_steps_after=steps_after or None,
        layers=tuple(layers),
        host=Coverage.of(source, graph.names).host,
        warnings=source.warnings,
    )


class LayerLayout(NamedTuple):
    """Layout of a layer on arrays. batches: None for one window a step; size: of its fold."""

    mapping: Mapping
    arrays: int
    batches: int | None = None
    size: Pair = UNFOLDED
    block: Pair | None = None
    copies: int = 1

    def array_steps(self, windows: int) -> int:
        """Return the arrays times the steps in which they compute one input of `windows` windows."""
        return self.arrays * (windows if self.batches is None else self.batches)


def _best_layout(
    storage: Storage, index: int, stage: Stage, windows: int, most: int, folded: LayerLayout
) -> LayerLayout:
    """Return a layer's layout with the fewest array-steps in at most the arrays of im2col, `most`."""
    possible = [LayerLayout("im2col", most), folded]
    try:
        options = DEFAULT_MAPPING.changed(mapping="whole_kernel")
        network, hardware = storage.laid_out
        [arrays] = demands(network, [stage], hardware, options)
        possible.append(LayerLayout("whole_kernel", arrays))
    except SpecError:  # a kernel with more positions than wordlines
        pass
    every = stage_modes(storage, index, most)
    row = np.lexsort((every.each.total, every.arrays, every.arrays * every.batches))[0]
    arrays = int(every.arrays[row])
    batches = int(every.batches[row])
    copies = int(every.low[row])
    block = every.mode(int(row)).block
    possible.append(LayerLayout("sdk", arrays, batches, block=block, copies=copies))
    fitting = [layout for layout in possible if layout.arrays <= most]
    return min(fitting, key=lambda layout: (layout.array_steps(windows), layout.arrays))


def _input_of(network: Network, stage: Stage) -> tuple[Pair, Pads]:
    """Return the height and width of a stage's input, and its pads."""
    shape = network.input_shape(stage)
    pads = stage.geometry.pads if isinstance(stage, Conv) else Pads(0, 0, 0, 0)
    return (shape.height, shape.width), pads


def _described(filter_: Filter, fold: Fold | None, read: tuple[Pair, Pads] | None = None) -> dict[str, Any]:
    """Return the fields of Folded; None: a dilated filter stays. read: its input's extent and pads."""
    made: Filter | Fold = filter_ if fold is None else fold
    size = UNFOLDED if fold is None else fold.size
    folded_input = None
    if fold is not None and read is not None and size != UNFOLDED:
        folded_input = (*folded_extent(fold, *read), filter_.groups * fold.channels)
    return {
        "filter_before": filter_.shape,
        "stride_before": filter_.stride,
        "groups": filter_.groups,
        "n_h": size[0],
        "n_w": size[1],
        "filter": made.shape,
        "stride": made.stride,
        "dilation": made.dilation,
        "padding_added": 0 if fold is None else fold.padding_added,
        "overlap": (0, 0) if fold is None else fold.overlap,
        "folded_input": folded_input,
        "exact": True,  # every fold is: pixel j * t + i of the input meets pixel i of the kernel
    }


def _checked(
    network: Network, stage: Stage, size: Pair, seed: int, *, wanted: bool
) -> tuple[bool | None, str]:
    """Return (True if shown equal, reason why it is not folded or not checked). Raises SolverError."""
    if not wanted or size == UNFOLDED:
        return None, fold_refusal(network, stage) or ""
    fold = Fold.of(filter_of(network, stage), size)
    try:
        return _proven(fold, *_input_of(network, stage), seed, stage.name), ""
    except UnsupportedError as error:
        return None, f"not checked: {error.reason}"


def _proven(fold: Fold, extent: Pair, pads: Pads, seed: int, where: str) -> bool:
    if not equal_on_random_data(fold, extent, pads, seed):
        raise SolverError(f"{where[:60]}: folded and direct convolution differ on random data; please report")
    return True


def _pair(where: str, sizes: Sequence[int]) -> Pair:
    high, wide = _numbers(where, sizes, (2,), least=1)
    return high, wide


def _numbers(
    where: str, sizes: Sequence[int], counts: tuple[int, ...], least: int | None = None
) -> tuple[int, ...]:
    """Return sizes whose number is one of `counts`. Raises SpecError.

    least: of each, None where others check them.
    """
    if len(sizes) not in counts:
        some = " or ".join(str(count) for count in counts)
        raise SpecError(where, f"takes {some} numbers, got {len(sizes)}")
    if least is not None:
        for size in sizes:
            check_range(where, size, least, MAX_EXTENT)
    return tuple(sizes)
