"""The nodes of a network: one record per operator of the network JSON, with its shape rule.

Shapes are (channels, height, width) without batch; vectors are C x 1 x 1, token sequences C x T x 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, FailFast, Field

from rramalloc.network.geometry import MAX_EXTENT, MAX_PIXELS, Geometry, Pads, Pair, Shape
from rramalloc.records import Record, as_tuple, from_list


class ShapeError(Exception):
    """A node cannot take its inputs: the field at fault and the reason; the caller adds the node's name."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


def _repeated(count: int, value: Any) -> Any:
    """Return `count` times a number that a file gives once for all sides, and a list as a tuple."""
    return (value,) * count if isinstance(value, int) and not isinstance(value, bool) else as_tuple(value)


_pair = partial(_repeated, 2)


Name = Annotated[str, Field(min_length=1, max_length=1000)]
Size = Annotated[int, Field(ge=1, le=MAX_EXTENT)]
Offset = Annotated[int, Field(ge=0, le=MAX_EXTENT)]
SizePair = Annotated[tuple[Size, Size], BeforeValidator(_pair, json_schema_input_type=Size | list[Size])]
OffsetPair = Annotated[
    tuple[Offset, Offset], BeforeValidator(_pair, json_schema_input_type=Offset | list[Offset])
]
PadsField = Annotated[
    tuple[Offset, Offset, Offset, Offset],
    BeforeValidator(partial(_repeated, 4), json_schema_input_type=Offset | list[Offset]),
]
Images = Annotated[int, Field(ge=1, le=MAX_PIXELS)]
MOST_NODE_BITS = 64
NodeBits = Annotated[int, Field(ge=1, le=MOST_NODE_BITS)]
ShapeField = Annotated[tuple[Size, Size, Size], from_list(list[Size])]
Macs = Annotated[int, Field(ge=0, le=2**63 - 1)]


class _Node(Record):
    """Base of every node: a unique name; images: of its output, stated where their number changes."""

    name: Name
    images: Images | None = None

    def parameters(self) -> dict[str, Any]:
        """Return the fields that decide the timing as JSON: no name, op, inputs, `shares` and `dynamic_macs`.

        The fields of an interpolation are left out at their defaults, those of the precision if they are not
        given.
        """
        apart = {"name", "op", "inputs", "shares", "dynamic_macs"}
        fields = self.model_dump(mode="json", exclude=apart, exclude_none=True)
        plain = (
            ("mode", "nearest"),
            ("coordinates", "asymmetric"),
            ("order", "raster"),
            ("mixes_images", False),
        )
        return {name: value for name, value in fields.items() if (name, value) not in plain}

    def output_shape(self, inputs: list[Shape]) -> Shape:
        """Return the shape of the output. Raises ShapeError if the inputs do not fit."""
        return self.image_shape(inputs).of_images(self.image_count(inputs))

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return channels, height and width of an image of the output."""
        raise NotImplementedError

    def image_count(self, inputs: list[Shape]) -> int:
        """Return the images of the output: those of the inputs, of which one alone is broadcast to all."""
        counts = sorted({shape.images for shape in inputs} - {1}) or [1]
        if len(counts) > 1:
            raise ShapeError("inputs", f"numbers of images differ: {' and '.join(map(str, counts[:4]))}")
        if self.images not in (None, counts[0]):
            raise ShapeError("images", f"must be those of its inputs, {counts[0]}, got {self.images}")
        return counts[0]

    def images_needed(self, inputs: list[Shape], position: int, images: int) -> list[Pair]:
        """Return the first and the last image of an input that each of `images` of the output needs.

        position: of the input. Where the output has fewer images each needs a group of its own of the
        input's; where it has more, as many of them in turn need the same one. (0, -1): none.
        """
        known = inputs[position].images
        if images < known:
            return [(image * known // images, (image + 1) * known // images - 1) for image in range(images)]
        return [(image * known // images, image * known // images) for image in range(images)]


class _Consumer(_Node):
    """A node with inputs; `single` operators take exactly one."""

    single: ClassVar[bool] = True
    inputs: Annotated[
        tuple[Name, ...],
        FailFast(),
        from_list(list[Name]),
        Field(min_length=1, max_length=100_000),
    ]


class Input(_Node):
    """The network's input, available at step 0."""

    op: Literal["input"] = "input"
    shape: ShapeField

    @property
    def inputs(self) -> tuple[str, ...]:
        """An input has no producer."""
        return ()

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return the declared shape."""
        return Shape(*self.shape)

    def image_count(self, inputs: list[Shape]) -> int:
        """Return the declared images."""
        return self.images or 1


class _WeightLayer(_Consumer):
    """A stage. shares: the stage whose weights this one uses; weight_bits, input_bits: its own precision."""

    shares: Name | None = None
    weight_bits: NodeBits | None = None
    input_bits: NodeBits | None = None


class _Convolution(_WeightLayer):
    """Fields of convolutions, transposed or not."""

    op: Literal["conv", "conv_transpose"]
    out_channels: Size
    kernel: SizePair
    stride: SizePair = (1, 1)
    pads: PadsField = (0, 0, 0, 0)
    dilation: SizePair = (1, 1)
    groups: Size = 1

    @property
    def geometry(self) -> Geometry:
        """Receptive field of one output pixel; of a transposed one the output that an input pixel reaches."""
        return Geometry(self.kernel, self.stride, Pads(*self.pads), self.dilation)

    @property
    def outputs(self) -> int:
        """Values that its weights yield for a window."""
        return self.out_channels


class Conv(_Convolution):
    """Convolution with constant weights: a stage. kernel, stride, dilation: (height, width)."""

    op: Literal["conv"] = "conv"

    def weight_count(self, channels: int) -> int:
        """Return the weights without biases for an input of `channels`: K_h * K_w * C_in / groups * C_out."""
        return self.kernel[0] * self.kernel[1] * (channels // self.groups) * self.out_channels

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return the grid of windows with `out_channels`."""
        _check_groups(self.groups, inputs[0].channels, self.out_channels)
        return _windowed(inputs[0], self.geometry, self.out_channels, ceil_mode=False)


class ConvTranspose(_Convolution):
    """Transposed convolution with constant weights: a stage of its own kind.

    Output pixel y needs input pixel h of an axis where y + pad = h * stride + k * dilation for a kernel
    position k. Its weights act on blocks of stride_h x stride_w output pixels: all pixels of a block read the
    same `block_reach` input pixels, so it is a convolution of stride 1 with a kernel of `block_reach`, and
    stride_h * stride_w times the output channels.

    kernel, stride, dilation, output_padding: (height, width); pads: what is cut off the full output;
    output_padding: rows and columns added behind it.
    Source: docs/sources/model.md 3.
    """

    op: Literal["conv_transpose"] = "conv_transpose"
    output_padding: OffsetPair = (0, 0)

    @property
    def block_reach(self) -> Pair:
        """Input rows and columns that a block of stride_h x stride_w output pixels reads, ceil(K / S).

        The block starts where output row + top pad is a multiple of the stride. With dilation: the number
        of different floor(k * dilation / stride).
        """
        high, wide = (
            min(kernel, (kernel - 1) * dilation // stride + 1)
            for kernel, dilation, stride in zip(self.kernel, self.dilation, self.stride, strict=True)
        )
        return high, wide

    def weight_count(self, channels: int) -> int:
        """Return the weights without biases for an input of `channels`: K_h * K_w * C_in * C_out / groups."""
        return self.kernel[0] * self.kernel[1] * channels * (self.out_channels // self.groups)

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return (H - 1) * stride + span - pads + output_padding along each axis."""
        _check_groups(self.groups, inputs[0].channels, self.out_channels)
        extents = []
        for axis, extent in enumerate((inputs[0].height, inputs[0].width)):
            stride, added = self.stride[axis], self.output_padding[axis]
            most = max(stride, self.dilation[axis]) - 1
            if added > most:
                raise ShapeError(
                    "output_padding", f"adds {added} pixels; with this stride and dilation at most {most}"
                )
            full = (extent - 1) * stride + self.geometry.span(axis) + added
            cut = sum(self.geometry.pads.along(axis))
            if cut >= full:
                side = "height" if axis == 0 else "width"
                raise ShapeError("pads", f"cut off {cut} of the {full} pixels in {side}")
            extents.append(full - cut)
        return Shape(self.out_channels, *extents)


class _PixelLayer(_WeightLayer):
    """A stage whose windows share no input, like a 1 x 1 convolution of its grid."""

    kernel: ClassVar[Pair] = (1, 1)
    stride: ClassVar[Pair] = (1, 1)
    pads: ClassVar[tuple[int, int, int, int]] = (0, 0, 0, 0)
    dilation: ClassVar[Pair] = (1, 1)
    groups: ClassVar[int] = 1
    geometry: ClassVar[Geometry] = Geometry((1, 1), (1, 1), Pads(0, 0, 0, 0), (1, 1))


class Linear(_PixelLayer):
    """Fully connected layer applied to every pixel: a stage, or left to the host on a 1 x 1 grid."""

    op: Literal["linear"] = "linear"
    out_features: Size

    @property
    def outputs(self) -> int:
        """Values that its weights yield for a window."""
        return self.out_features

    def weight_count(self, channels: int) -> int:
        """Return the weights without biases for an input of `channels`: C_in * C_out."""
        return channels * self.out_features

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return the input's grid with `out_features` channels."""
        return Shape(self.out_features, *inputs[0].grid)


class Recurrent(_PixelLayer):
    """The recurrence of an LSTM, a GRU or an RNN on a T x 1 grid: a stage that takes one window a step.

    Its input is the projection of every window onto all gates, a linear layer of its own, which a network
    puts before it where the input has other channels. A step adds to that the last state times its weights,
    so it needs the step before: there is one copy.
    hidden: channels of the state; gates: 4 for an LSTM, 3 for a GRU, 1 for a plain RNN.
    Source: docs/sources/model.md 11.
    """

    op: Literal["recurrent"] = "recurrent"
    hidden: Size
    gates: Annotated[int, Field(ge=1, le=64)]

    @property
    def outputs(self) -> int:
        """Values that its weights yield for a window: all gates."""
        return self.gates * self.hidden

    def weight_count(self, channels: int) -> int:
        """Return the weights without biases, which multiply the state: hidden * gates * hidden."""
        return self.hidden * self.outputs

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return the states, one for every window."""
        if inputs[0].width != 1:
            raise ShapeError("inputs", f"must be a T x 1 grid, got {inputs[0]}")
        if inputs[0].channels != self.outputs:
            raise ShapeError(
                "inputs",
                f"must have {self.outputs} channels, all gates of the state, got {inputs[0].channels}: "
                f"put a linear node with out_features {self.outputs} before it, the input projection",
            )
        return Shape(self.hidden, *inputs[0].grid)


class _Digital(_Consumer):
    """A node without constant weights; dynamic_macs: of the products of two computed tensors in it."""

    dynamic_macs: Macs | None = None


class _Regrouping(_Digital):
    """A node that may state fewer `images` than its input: each is made of a group of those.

    splits: it may also state more, of which several are parts of the same one.
    """

    splits: ClassVar[bool] = False

    def image_count(self, inputs: list[Shape]) -> int:
        """Return the stated images. Raises ShapeError if they do not divide those of the input."""
        known = inputs[0].images
        images = self.images or known
        if known % images and (images % known or not self.splits):
            more = " or be a multiple" if self.splits else ""
            raise ShapeError("images", f"must divide the {known} of its input{more}, got {images}")
        return images

    def group(self, inputs: list[Shape]) -> int:
        """Return the images of the input that an image of the output is made of."""
        return max(1, inputs[0].images // self.image_count(inputs))


class Pool(_Digital):
    """Max or average pooling; `ceil_mode` rounds the output size up."""

    op: Literal["maxpool", "avgpool"]
    kernel: SizePair
    stride: SizePair = (1, 1)
    pads: PadsField = (0, 0, 0, 0)
    dilation: SizePair = (1, 1)
    ceil_mode: bool = False

    @property
    def geometry(self) -> Geometry:
        """Receptive field of one output pixel."""
        return Geometry(self.kernel, self.stride, Pads(*self.pads), self.dilation)

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return the pooled grid; source: docs/sources/interface.md, network JSON (`ceil_mode`)."""
        return _windowed(inputs[0], self.geometry, inputs[0].channels, ceil_mode=self.ceil_mode)


class GlobalPool(_Regrouping):
    """Pooling over the grid, of a group of images if fewer are stated: needs every pixel, yields one."""

    op: Literal["global_avgpool", "global_maxpool"]

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return a single pixel."""
        return Shape(inputs[0].channels, 1, 1)


class Flatten(_Regrouping):
    """All values of an image, of a group if fewer images are stated, as one vector: needs every pixel."""

    op: Literal["flatten"] = "flatten"

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return a single pixel of all values."""
        channels, high, wide = inputs[0]
        return Shape(channels * high * wide * self.group(inputs), 1, 1)


class Concat(_Digital):
    """Concatenation along the channels, or along the images if their sum is stated; grids are the same."""

    single: ClassVar[bool] = False
    op: Literal["concat"] = "concat"

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return the common grid, 1 x 1 inputs are broadcast, with all channels."""
        channels = [shape.channels for shape in inputs]
        if self.is_along_images(inputs):
            if len({*channels}) > 1:
                raise ShapeError("inputs", f"channel counts differ: {' and '.join(map(str, channels[:8]))}")
            return Shape(channels[0], *_common_grid(inputs))
        return Shape(sum(channels), *_common_grid(inputs))

    def is_along_images(self, inputs: list[Shape]) -> bool:
        """Return True if the stated images are those of all inputs together."""
        return len(inputs) > 1 and self.images == sum(shape.images for shape in inputs)

    def image_count(self, inputs: list[Shape]) -> int:
        """Return the sum along the images, else the images of the inputs."""
        return self.images or 1 if self.is_along_images(inputs) else super().image_count(inputs)

    def images_needed(self, inputs: list[Shape], position: int, images: int) -> list[Pair]:
        """Return the image of an input that each of the output is, along the images."""
        if not self.is_along_images(inputs):
            return super().images_needed(inputs, position, images)
        before = sum(shape.images for shape in inputs[:position])
        own = range(before, before + inputs[position].images)
        return [(image - before, image - before) if image in own else (0, -1) for image in range(images)]


class Elementwise(_Digital):
    """Sum or product of inputs with equal grids; 1 x 1 grids and single channels are broadcast."""

    single: ClassVar[bool] = False
    op: Literal["add", "mul"]

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return the common grid; 1 x 1 grids and single channels are broadcast."""
        grid = _common_grid(inputs)
        channels = {shape.channels for shape in inputs} - {1} or {1}
        if len(channels) > 1:
            counts = " and ".join(str(shape.channels) for shape in inputs[:8])
            raise ShapeError("inputs", f"channel counts differ: {counts}")
        return Shape(channels.pop(), *grid)


class Pixelwise(_Digital):
    """Works on one pixel at a time and keeps the shape; softmax and layernorm act over channels."""

    op: Literal["relu", "activation", "batchnorm", "identity", "dropout", "layernorm", "softmax"]

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return the input's shape."""
        return inputs[0]


class Select(_Regrouping):
    """Pixelwise operator with another number of channels: slice, split, gather or reduce over channels.

    With other `images` than its input it moves channels to images (heads, stacked frames) or images to
    channels: pixel (y, x) needs that of the image that it is a part of, or of all those of its group.
    """

    splits: ClassVar[bool] = True
    op: Literal["select"] = "select"
    channels: Size

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return the input's grid with the stated channels."""
        return Shape(self.channels, *inputs[0].grid)


class Reduce(_Regrouping):
    """Reduction or difference over images, pixel by pixel, each of the output over a group of the input's.

    There is one image unless `images` says more; with as many as the input has it is over the pixels, or
    tokens, of each image, of which one remains.
    """

    op: Literal["reduce"] = "reduce"
    images: Images = 1

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return the input's shape, or a single pixel if the reduction is over pixels."""
        if self.image_count(inputs) == inputs[0].images:
            return Shape(inputs[0].channels, 1, 1)
        return inputs[0]


class Upsample(_Digital):
    """Enlargement by whole factors (height, width): of the nearest pixel, or interpolated.

    mode: how many source pixels around its position an output pixel needs along each axis: 1, 2 or 4;
    coordinates: the position of output pixel i of n * f in the source: i / f, (i + 1/2) / f - 1/2, or
    i * (n - 1) / (n * f - 1). The nearest pixel is always i // f.
    """

    op: Literal["upsample"] = "upsample"
    scale: SizePair
    mode: Literal["nearest", "linear", "cubic"] = "nearest"
    coordinates: Literal["asymmetric", "half_pixel", "align_corners"] = "asymmetric"

    def needed(self, axis: int, source: Shape) -> list[Pair]:
        """Return the first and the last source row (axis 0) or column (1) that each output one needs.

        A position on a source pixel needs that pixel alone: the weights of its neighbours are 0.
        """
        factor, extent = self.scale[axis], source[1 + axis]
        outputs = range(extent * factor)
        if self.mode == "nearest":
            return [(index // factor, index // factor) for index in outputs]
        more = 1 if self.mode == "cubic" else 0
        ranges = []
        for index in outputs:
            over, under = {
                "asymmetric": (index, factor),
                "half_pixel": (2 * index + 1 - factor, 2 * factor),
                "align_corners": (index * (extent - 1), max(extent * factor - 1, 1)),
            }[self.coordinates]
            below, rest = divmod(over, under)
            first, last = (below - more, below + 1 + more) if rest else (below, below)
            ranges.append((min(max(first, 0), extent - 1), min(max(last, 0), extent - 1)))
        return ranges

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return the source grid times the factors."""
        channels, height, width = inputs[0]
        return Shape(channels, height * self.scale[0], width * self.scale[1])


def _taken(runs: PixelRuns) -> list[Pair]:
    """Return the index of each entry of runs as its first and last one, (0, -1) for none."""
    taken = [first + step * turn for first, count, step in runs for turn in range(count)]
    return [(index, index) if index >= 0 else (0, -1) for index in taken]


PixelRun = Annotated[tuple[Annotated[int, Field(ge=-1, le=MAX_EXTENT)], Size, int], from_list(list[int])]
PixelRuns = Annotated[
    tuple[PixelRun, ...], from_list(list[PixelRun]), Field(min_length=1, max_length=100_000)
]


class Take(_Digital):
    """Pixels taken by row and column: slices, flips, shifts, padding with zeros or reflections.

    rows, columns: the input row of every output row of an image, and columns alike, as runs [first, count,
    step]; -1 for first, with step 0, takes none: zeros. None keeps all. of_images: the input image of every
    output image alike: frames that are shifted, reversed, repeated, put in another order.
    """

    op: Literal["take"] = "take"
    rows: PixelRuns | None = None
    columns: PixelRuns | None = None
    of_images: PixelRuns | None = None

    def needed(self, axis: int, source: Shape) -> list[Pair]:
        """Return the first and last source row (axis 0) or column (1) of each output one; (0, -1): none."""
        runs = (self.rows, self.columns)[axis]
        if runs is None:
            return [(index, index) for index in range(source[1 + axis])]
        return _taken(runs)

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return as many rows and columns as the runs have."""
        extents = []
        for field, runs, extent in (
            ("rows", self.rows, inputs[0].height),
            ("columns", self.columns, inputs[0].width),
            ("of_images", self.of_images, inputs[0].images),
        ):
            for first, count, step in runs or ():
                last = first + step * (count - 1)
                if (first < 0 and step) or not (first < 0 or (0 <= first < extent and 0 <= last < extent)):
                    raise ShapeError(
                        field, f"the run [{first}, {count}, {step}] leaves the {extent} there are"
                    )
            extents.append(extent if runs is None else sum(count for _, count, _ in runs))
        return Shape(inputs[0].channels, *extents)

    def image_count(self, inputs: list[Shape]) -> int:
        """Return as many images as their runs have."""
        if self.of_images is None:
            return super().image_count(inputs)
        taken = sum(count for _, count, _ in self.of_images)
        if self.images not in (None, taken):
            raise ShapeError("images", f"must be the {taken} that of_images takes, got {self.images}")
        return taken

    def images_needed(self, inputs: list[Shape], position: int, images: int) -> list[Pair]:
        """Return the image that each of the output is, (0, -1) for zeros."""
        if self.of_images is None:
            return super().images_needed(inputs, position, images)
        return _taken(self.of_images)


class Regrid(_Digital):
    """The same pixels on another grid.

    grid: height and width; images: of the output. order "raster": pixels keep their order in raster order,
    image by image. Between as many images of the same size each an output row waits for whole input rows;
    where `images` changes it is exact if one width is a multiple of the other. "windows": every image is cut
    into windows of `grid`, in raster order of the windows, or windows are put together to images of `grid`,
    whichever fits; "strided": alike, but window (a, b) of (m, n) holds the rows a, a + m, a + 2 m ... and the
    columns b, b + n ... of the image. Both are exact.
    """

    op: Literal["regrid"] = "regrid"
    grid: SizePair
    order: Literal["raster", "windows", "strided"] = "raster"

    def needed(self, axis: int, source: Shape) -> list[Pair]:
        """Return the first and the last source row with pixels of each output row; a column may need any."""
        if axis == 1:
            return [(0, source.width - 1)] * self.grid[1]
        ends = range(0, source.height * source.width, self.grid[1])
        return [(end // source.width, (end + self.grid[1] - 1) // source.width) for end in ends]

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return the stated grid."""
        return Shape(inputs[0].channels, *self.grid)

    def image_count(self, inputs: list[Shape]) -> int:
        """Return the stated images. Raises ShapeError if they have other pixels than the input."""
        images, (high, wide) = self.images or inputs[0].images, self.grid
        if images * high * wide != inputs[0].pixels:
            of = f"{images} images of " if images > 1 else ""
            reason = f"{of}{high} x {wide} are not the {inputs[0].pixels} pixels of the input"
            raise ShapeError("grid", reason)
        large, small = sorted((inputs[0].grid, self.grid), reverse=True)
        if self.order != "raster" and any(more % less for more, less in zip(large, small, strict=True)):
            raise ShapeError("grid", f"{small} does not divide {large}, which order {self.order!r} cuts")
        return images


class Barrier(_Digital):
    """Anything that needs all pixels of its inputs before it yields the first of `shape`.

    An image waits for all of its own; with mixes_images, or where their number changes, for those of all.
    """

    single: ClassVar[bool] = False
    op: Literal["barrier"] = "barrier"
    shape: ShapeField
    mixes_images: bool = False

    def image_shape(self, inputs: list[Shape]) -> Shape:
        """Return the declared shape."""
        return Shape(*self.shape)

    def image_count(self, inputs: list[Shape]) -> int:
        """Return the stated images, which may be any."""
        return self.images or super().image_count(inputs)

    def images_needed(self, inputs: list[Shape], position: int, images: int) -> list[Pair]:
        """Return all images of the input, or the same one of as many."""
        known = inputs[position].images
        if self.mixes_images or images != known:
            return [(0, known - 1)] * images
        return super().images_needed(inputs, position, images)


Stage = Conv | ConvTranspose | Linear | Recurrent
Windowed = Conv | Pool
"""Nodes of which an output pixel needs a window of the input."""
Ranged = Upsample | Take | Regrid
"""Nodes that say by `needed` which rows and columns of the source each of theirs needs."""
Whole = GlobalPool | Flatten | Barrier
"""Nodes that need every pixel of their inputs before they yield the first."""
DigitalNode = (
    Pool | GlobalPool | Flatten | Concat | Elementwise | Pixelwise | Select | Reduce | Ranged | Barrier
)
"""Nodes without weights: they take no time of their own unless the hardware gives them a rate."""
TimedNode = Stage | DigitalNode
"""Node of which a batch can be computed: a weight layer, or a digital node with a rate."""
Node = Annotated[Input | TimedNode, Field(discriminator="op")]


def _by_operator(kinds: Any) -> Mapping[str, Any]:
    return {op: kind for kind in get_args(kinds) for op in get_args(kind.model_fields["op"].annotation)}


KINDS = _by_operator(Input | TimedNode)
"""Record of every operator of the network JSON."""
WEIGHT_OPERATORS = tuple(_by_operator(Stage))
"""Operators of weight layers."""


class Unmodelled(Record):
    """An operator of the file with constant weights that no stage stands for: a barrier without arrays.

    name: node of the network that takes its place; weights: without biases; macs: multiply-accumulates for
    one input, None where the file does not determine them.
    """

    name: Name
    operator: str
    weights: int
    macs: int | None = None


class Approximation(Record):
    """A node that stands for an operator only approximately, and how: mostly as a barrier."""

    name: Name
    operator: str
    treatment: str


def _windowed(source: Shape, geometry: Geometry, channels: int, *, ceil_mode: bool) -> Shape:
    extents = []
    for axis, extent in enumerate((source.height, source.width)):
        span, padded = geometry.span(axis), extent + sum(geometry.pads.along(axis))
        if padded < span:
            side = "height" if axis == 0 else "width"
            raise ShapeError("kernel", f"covers {span} pixels, the padded input has {padded} in {side}")
        extents.append(geometry.windows(axis, extent, ceil_mode=ceil_mode))
    return Shape(channels, *extents)


def _common_grid(inputs: list[Shape]) -> Pair:
    grids = sorted({(shape.height, shape.width) for shape in inputs} - {(1, 1)}) or [(1, 1)]
    if len(grids) > 1:
        shown = " and ".join(f"{height} x {width}" for height, width in grids[:4])
        raise ShapeError("inputs", f"grids differ: {shown}")
    return grids[0]


def _check_groups(groups: int, inputs: int, outputs: int) -> None:
    """Raise ShapeError if groups do not divide the channels."""
    for side, count in (("input", inputs), ("output", outputs)):
        if count % groups:
            raise ShapeError("groups", f"{groups} groups do not divide {count} {side} channels")
