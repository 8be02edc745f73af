"""A second definition of exact timing: loops over single pixels, word by word from docs/sources/model.md 2
and 4.

Slow on purpose, and without a line from rramalloc.timing: nodes and shapes go in, start steps come out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from types import MappingProxyType

from rramalloc.mapping.modes import BlockGrid
from rramalloc.network.geometry import Shape
from rramalloc.network.network import Network
from rramalloc.network.node import (
    Barrier,
    Concat,
    Conv,
    ConvTranspose,
    Flatten,
    GlobalPool,
    Linear,
    Node,
    Pool,
    Reduce,
    Regrid,
    Take,
    Upsample,
)

Pixel = tuple[int, int]
Window = tuple[str, int]


def pixels(shape: Shape) -> list[Pixel]:
    """All pixels of all images in raster order: row of all images, column."""
    return list(product(range(shape.images * shape.height), range(shape.width)))


@cache
def windows_of(grid: BlockGrid) -> list[list[Pixel]]:
    """The windows (row, column) of every block."""
    held: dict[tuple[int, int, int], list[Pixel]] = {}
    height = grid.height // grid.images
    for y, x in product(range(grid.height), range(grid.width)):
        row, column = (y % height + grid.phase[0]) // grid.block[0], (x + grid.phase[1]) // grid.block[1]
        held.setdefault((y // height, row, column), []).append((y, x))
    return [held[block] for block in sorted(held)]


def needed_inputs(
    node: Node, pixel: Pixel, position: int, sources: Sequence[Shape], output: Shape
) -> list[Pixel]:
    """Pixels of input `position` that output `pixel` of `node` needs, rows counted over all images.

    docs/sources/model.md 2, "Images".
    """
    source = sources[position]
    image, y = divmod(pixel[0], output.height)
    x = pixel[1]
    if isinstance(node, Regrid) and node.order != "raster":
        (high, wide), (height, width) = sorted(((source.height, source.width), (output.height, output.width)))
        strided, beside = node.order == "strided", width // wide
        of_windows = (height // high) * beside
        if source.height * source.width >= output.height * output.width:  # cut
            image, window = divmod(image, of_windows)
            a, b = divmod(window, beside)
            row, column = a * high + y, b * wide + x
            if strided:
                row, column = y * (height // high) + a, x * beside + b
            return [(image * height + row, column)]
        (a, row), (b, column) = divmod(y, high), divmod(x, wide)
        if strided:
            (row, a), (column, b) = divmod(y, height // high), divmod(x, beside)
        return [((image * of_windows + a * beside + b) * high + row, column)]
    if isinstance(node, Regrid) and source.images != output.images:
        widths = sorted((source.width, output.width))
        own = [pixel[0] * output.width + x]
        if widths[1] % widths[0]:
            own = [pixel[0] * output.width + column for column in range(output.width)]
            rows = sorted({at // source.width for at in own})
            return list(product(rows, range(source.width)))
        return [divmod(at, source.width) for at in own]
    if (
        isinstance(node, Concat)
        and node.images == sum(shape.images for shape in sources)
        and len(sources) > 1
    ):
        image -= sum(shape.images for shape in sources[:position])
        images = [image] if 0 <= image < source.images else []
    elif isinstance(node, Take) and node.of_images is not None:
        taken = [first + step * turn for first, count, step in node.of_images for turn in range(count)][image]
        images = [taken] if taken >= 0 else []
    elif isinstance(node, Barrier) and (node.mixes_images or source.images != output.images):
        images = list(range(source.images))
    elif source.images >= output.images:
        group = source.images // output.images
        images = [image * group + other for other in range(group)]
    else:
        images = [image // (output.images // source.images)]
    if isinstance(node, Reduce) and source.images == output.images:
        needed = list(product(range(source.height), range(source.width)))
    else:
        needed = needed_pixels(node, (y, x), Shape(*source))
    return [(image * source.height + row, column) for image in images for row, column in needed]


def needed_pixels(node: Node, pixel: Pixel, source: Shape) -> list[Pixel]:
    """Pixels of an input of shape `source` that output `pixel` of `node` needs. docs/sources/model.md 2,
    the list."""
    y, x = pixel
    if isinstance(node, Conv | Pool):
        top, left = node.pads[0], node.pads[1]
        field = [
            (
                y * node.stride[0] + row * node.dilation[0] - top,
                x * node.stride[1] + column * node.dilation[1] - left,
            )
            for row in range(node.kernel[0])
            for column in range(node.kernel[1])
        ]
        return [(r, c) for r, c in field if 0 <= r < source.height and 0 <= c < source.width]
    if isinstance(node, ConvTranspose):
        rows, columns = (
            [
                h
                for h in range(extent)
                if at
                in [h * node.stride[a] + k * node.dilation[a] - node.pads[a] for k in range(node.kernel[a])]
            ]
            for a, at, extent in ((0, y, source.height), (1, x, source.width))
        )
        return [(r, c) for r in rows for c in columns]
    if isinstance(node, Take):
        rows, columns = (
            [at] if runs is None else [[i * s + f for f, n, s in runs for i in range(n)][at]]
            for at, runs in ((y, node.rows), (x, node.columns))
        )
        return [(r, c) for r in rows for c in columns if r >= 0 and c >= 0]
    if isinstance(node, Regrid):
        own = [y * node.grid[1] + column for column in range(node.grid[1])]
        return [(r, c) for r in sorted({at // source.width for at in own}) for c in range(source.width)]
    if isinstance(node, Upsample):
        rows, columns = (
            _around(node.mode, node.coordinates, node.scale[axis], at, extent)
            for axis, at, extent in ((0, y, source.height), (1, x, source.width))
        )
        return [(r, c) for r in rows for c in columns]
    if isinstance(node, GlobalPool | Flatten | Barrier):
        return pixels(source)
    if (source.height, source.width) == (1, 1):
        return [(0, 0)]
    return [(y, x)]


@cache
def _around(mode: str, coordinates: str, factor: int, at: int, extent: int) -> Sequence[int]:
    """Source pixels less than one pixel (cubic: two) from an output pixel's position, clipped."""
    if mode == "nearest":
        return (at // factor,)
    position = Fraction(at, factor)
    if coordinates == "half_pixel":
        position = (at + Fraction(1, 2)) / factor - Fraction(1, 2)
    elif coordinates == "align_corners":
        position = Fraction(at * (extent - 1), extent * factor - 1) if extent > 1 else Fraction(0)
    reach = 1 if position.denominator == 1 or mode == "linear" else 2
    near = [q for q in range(-4, extent + 4) if abs(q - position) < reach]
    clipped = [min(max(q, 0), extent - 1) for q in near]
    return range(min(clipped), max(clipped) + 1)


@dataclass(frozen=True)
class Reference:
    """starts: start step of every batch by stage; needs: stage windows that each window needs.

    batch: the batch that computes each window, by stage; cycles: length of a batch, 1 where it is not given.
    """

    starts: dict[str, list[int]]
    needs: dict[str, list[frozenset[Window]]]
    batch: dict[str, dict[int, int]]
    cycles: Mapping[str, int]

    @property
    def finish(self) -> dict[str, int]:
        return {name: steps[-1] + self.cycles.get(name, 1) for name, steps in self.starts.items()}

    @property
    def makespan(self) -> int:
        return max(self.finish.values())

    @property
    def interval(self) -> int:
        return max(len(steps) * self.cycles.get(name, 1) for name, steps in self.starts.items())

    def lives(self) -> dict[tuple[str, str], dict[int, tuple[int, int]]]:
        """Life of every pixel of a producer that a consumer needs, by edge and pixel.

        A pixel lives from the step that computes it up to, without it, the start of the last batch that
        needs it (docs/sources/model.md 4).
        """
        last_user: dict[tuple[str, str], dict[int, int]] = {}
        for consumer, needs in self.needs.items():
            for window, needed in enumerate(needs):
                for producer, of in needed:
                    users = last_user.setdefault((producer, consumer), {})
                    users[of] = max(users.get(of, 0), self.batch[consumer][window])
        return {
            (producer, consumer): {
                of: (self.starts[producer][self.batch[producer][of]], self.starts[consumer][batch])
                for of, batch in users.items()
            }
            for (producer, consumer), users in last_user.items()
        }

    def buffers(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Most pixels of a producer alive at once for a consumer: of one input, of inputs that stream."""
        every = {edge: [(*life, 1) for life in lives.values()] for edge, lives in self.lives().items()}
        return {edge: (self._most(lives, 1), self._most(lives, None)) for edge, lives in every.items()}

    def totals(self, bits: Mapping[str, int]) -> tuple[int, int]:
        """Most bits alive at once of all producers, a pixel once: of one input, of inputs that stream."""
        last: dict[tuple[str, int], tuple[int, int]] = {}
        for (producer, _), lives in self.lives().items():
            for of, (born, freed) in lives.items():
                last[producer, of] = (born, max(freed, last.get((producer, of), (born, 0))[1]))
        lives = [(*life, bits[producer]) for (producer, _), life in last.items()]
        return self._most(lives, 1), self._most(lives, None)

    def _most(self, lives: Sequence[tuple[int, int, int]], inputs: int | None) -> int:
        """Count at every step; of inputs that stream so many begin that the first has long ended."""
        begins, first, last = [0], 0, self.makespan + 1
        if inputs is None:
            begins = list(range(0, self.makespan + self.interval, self.interval))
            first, last = begins[-1], begins[-1] + self.interval
        alive = [0] * (begins[-1] + self.makespan + 1)
        for begin in begins:
            for born, freed, size in lives:
                for step in range(begin + born, begin + freed):
                    alive[step] += size
        return max(alive[first:last])


def is_stage(network: Network, node: Node, fc: str, host: Collection[str] = ()) -> bool:
    """Convolutions, and linear layers unless they are left to the host. docs/sources/model.md 2."""
    if node.name in host:
        return False
    if isinstance(node, Linear):
        return fc == "crossbar" or network.shapes[node.name].pixels > 1
    return isinstance(node, Conv | ConvTranspose)


def reference(
    network: Network,
    copies: Mapping[str, int],
    handoff: str = "next",
    fc: str = "host",
    blocks: Mapping[str, Pixel] = MappingProxyType({}),
    cycles: Mapping[str, int] = MappingProxyType({}),
    delays: Mapping[tuple[str, str], int] = MappingProxyType({}),
    host: Collection[str] = (),
) -> Reference:
    """Walk every pixel of every node once, producers first.

    blocks: windows (height, width) that a copy computes in a batch, [1, 1] unless given; cycles: length of a
    batch, 1 unless given; a digital node that is named there yields one pixel in every such time; delays:
    from a stage to another, 0 unless given (docs/sources/model.md 10 and 11); host: layers left to it, each a
    barrier that reads all pixels.
    """
    available: dict[str, dict[Pixel, int]] = {}
    origins: dict[str, dict[Pixel, frozenset[Window]]] = {}
    starts: dict[str, list[int]] = {}
    needs: dict[str, list[frozenset[Window]]] = {}
    computed: dict[str, dict[int, int]] = {}
    for node in network.nodes:
        output, sources = network.shapes[node.name], [network.shapes[name] for name in node.inputs]
        grid = pixels(output)
        ready = dict.fromkeys(grid, 0)
        origin: dict[Pixel, frozenset[Window]] = dict.fromkeys(grid, frozenset())
        for pixel in grid:
            for position, name in enumerate(node.inputs):
                read = (
                    Barrier(name="host", inputs=(name,), shape=tuple(output)) if node.name in host else node
                )
                wanted = needed_inputs(read, pixel, position, sources, output)
                ready[pixel] = max([ready[pixel], *(available[name][q] for q in wanted)])
                origin[pixel] = origin[pixel].union(*(origins[name][q] for q in wanted))
        if is_stage(network, node, fc, host) or node.name in cycles:
            for pixel in grid:
                for p, window in origin[pixel]:
                    done = starts[p][computed[p][window]] + cycles.get(p, 1) * (handoff == "next")
                    ready[pixel] = max(ready[pixel], done + delays.get((p, node.name), 0))
            top, left = 0, 0
            if isinstance(node, ConvTranspose):  # blocks are aligned to the stride
                top, left = node.pads[0] % node.stride[0], node.pads[1] % node.stride[1]
            count, period = copies.get(node.name, 1), cycles.get(node.name, 1)
            starts[node.name], needs[node.name] = [], [origin[pixel] for pixel in grid]
            smallest = node.stride if isinstance(node, ConvTranspose) else (1, 1)
            high, wide = blocks.get(node.name, smallest)
            cut: dict[tuple[int, int, int], list[Pixel]] = {}
            for y, x in grid:
                image, row = divmod(y, output.height)
                cut.setdefault((image, (row + top) // high, (x + left) // wide), []).append((y, x))
            in_blocks = [cut[place] for place in sorted(cut)]
            number = {pixel: window for window, pixel in enumerate(grid)}
            computed[node.name], previous = {}, -period
            for begin in range(0, len(in_blocks), count):
                batch = [pixel for block in in_blocks[begin : begin + count] for pixel in block]
                previous = max(previous + period, *(ready[pixel] for pixel in batch), 0)
                starts[node.name].append(previous)
                for pixel in batch:
                    computed[node.name][number[pixel]] = len(starts[node.name]) - 1
                    ready[pixel] = previous + period if handoff == "next" else previous
            origin = {pixel: frozenset([(node.name, window)]) for window, pixel in enumerate(grid)}
        available[node.name], origins[node.name] = ready, origin
    return Reference(starts, needs, computed, cycles)
