"""Compiled exact timing: the batches of a stage, and all stages (docs/sources/model.md 4 and 10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled, compiled_part
from rramalloc.mapping.modes import BlockGrid

NEVER: Any = np.int64(2**62)
"""Stands for the finish of a stage that exceeds its limit."""
NEXT_STEP: Any = np.int64(1)
"""Steps from the start of a batch until its pixels can be used with handoff "next"."""
_NOTHING = -(2**40)
"""Stands for the first block of a row of the producer where no row is needed: less than any other sum."""


@compiled_part
def block_row(row: int, per_tall: float, above: float, image: int) -> int:
    """Return the row of blocks that a pixel row lies in, both counted over all images; see BlockGrid.

    per_tall: 1 / height of a block; above: pixels by which the first block begins above its image, plus 0.5;
    image: rows of one image. A product in place of a division, as in `run_stage`.
    """
    if row < image:
        return np.int64((row + above) * per_tall)  # type: ignore[return-value]
    before = row // image
    in_image = np.int64((image - 1 + above) * per_tall) + 1
    return before * in_image + np.int64((row - before * image + above) * per_tall)  # type: ignore[return-value]


@compiled_part
def last_row(row: int, tall: int, top: int, image: int) -> int:
    """Return the last pixel row of a row of blocks, counted over all images; image: height of one."""
    end = (row + 1) * tall - top
    if end <= image:
        return end - 1
    in_image = (image + top - 1) // tall + 1
    before = row // in_image
    return before * image + min((row - before * in_image + 1) * tall - top, image) - 1


class Shapes(NamedTuple):
    """The block grid of every stage in a form for compiled code, int64 of length n: see BlockGrid.

    tall, wide: pixels of a block; top, left: pixels by which the first begins above and left of the grid;
    columns: blocks in a row of blocks; total: blocks in all.
    """

    tall: Any
    wide: Any
    top: Any
    left: Any
    columns: Any
    total: Any

    @classmethod
    def of(cls, grids: Sequence[BlockGrid]) -> Shapes:
        """Return the shapes of these grids."""
        rows = [(*grid.block, *grid.phase, grid.columns, grid.total) for grid in grids]
        return cls(*np.array(rows, dtype=np.int64).T.copy())


class Needs(NamedTuple):
    """Batch of the producer that each batch depends on, or -1: int32, of an edge from first[edge] on."""

    first: Any
    batch: Any


class Timeline(NamedTuple):
    """Start steps of the batches of all stages, those of stage i from starts[begin[i]] on.

    copies: of every stage; delay: 1 if pixels can be used when their batch ends (handoff "next"), 0 if when
    it starts.
    """

    copies: Any
    begin: Any
    starts: Any
    delay: Any = NEXT_STEP


@compiled_part
def run_stage(
    edges: Any, shapes: Any, ticks: Any, needs: Any, timeline: Any, stage: int, out: int, limit: int
) -> tuple[int, int]:
    """Write the start steps of all batches of a stage from starts[out] on; return (finish, batches).

    Returns (NEVER, batches before the first one that is too late) as soon as the finish exceeds `limit`.
    edges: with tables of needed blocks if all blocks are fixed, `shapes` is None then; with extents if
    `shapes` gives the blocks. ticks: int64, length of a batch of every stage. needs: Needs of all edges, of
    which those of this stage are written, or None.

    start(b) = max(start(b - 1) + ticks, earliest start by each edge) is the maximum of the same recurrence
    over single edges. So edges are processed one after the other, with one table and one producer in cache.
    """
    copies, begin, starts, delay = timeline
    d = copies[stage]
    blocks = edges.windows[stage] if shapes is None else shapes.total[stage]
    batches = (blocks + d - 1) // d
    period = ticks[stage]
    if batches * period > limit:
        return NEVER, 0
    time: Any = np.int64(0)
    for batch in range(batches):
        starts[out + batch] = time
        time += period
    counted = batches
    if shapes is not None:
        columns, tall, wide = shapes.columns[stage], shapes.tall[stage], shapes.wide[stage]
        top, left, rows = shapes.top[stage], shapes.left[stage], blocks // columns
        image, right = edges.image[stage], edges.width[stage] - 1
        down, along = d // columns, d % columns
        table = edges.table
    for edge in range(edges.pointer[stage], edges.pointer[stage + 1]):
        p = edges.producer[edge]
        usable, inverse = begin[p], 1.0 / copies[p]
        time, last, latest = -period, -1, limit - batches * period
        until_used = edges.lag[edge] + delay * ticks[p]
        if shapes is None:
            offset = edges.offset[edge]
        else:
            row_at, column_at = edges.row[edge], edges.column[edge]
            per_tall, per_wide, of_image = 1.0 / shapes.tall[p], 1.0 / shapes.wide[p], edges.image[p]
            above, beside, stride = shapes.top[p] + 0.5, shapes.left[p] + 0.5, shapes.columns[p]
            row_end = np.int64((table[column_at + right] + beside) * per_wide)
            row, column, row_base, row_before, known = -1, columns - 1, _NOTHING, -1, -1
        for batch in range(counted):
            if shapes is None:
                last += d
                if last >= blocks:
                    last = blocks - 1
                needed: Any = np.int64(edges.need[offset + last])
            else:
                # Two pixels decide (docs/sources/model.md 10): the last one of the batch's last block, and
                # the end of the row of blocks above it. Row look-ups are kept until the row changes.
                row += down
                column += along
                if column >= columns:
                    column -= columns
                    row += 1
                if row >= rows:
                    row, column = rows - 1, columns - 1
                if row != known:
                    known = row
                    pixel = table[row_at + last_row(row, tall, top, image)]
                    row_base = (
                        block_row(pixel, per_tall, above, of_image) * stride if pixel >= 0 else _NOTHING
                    )
                    if row > 0:
                        pixel = table[row_at + last_row(row - 1, tall, top, image)]
                        if pixel >= 0:
                            row_before = block_row(pixel, per_tall, above, of_image) * stride + row_end
                pixel = table[column_at + min((column + 1) * wide - left - 1, right)]
                needed = row_base + np.int64((pixel + beside) * per_wide) if pixel >= 0 else row_before
                if needed < row_before:
                    needed = row_before
            time = max(time + period, np.int64(starts[out + batch]))
            if needs is not None:
                needs.batch[needs.first[edge] + batch] = -1
            if needed >= 0:
                # A product in place of a division: exact, as (needed + 0.5) / d is at least 0.5 / d away from
                # a whole number, and blocks and copies are below 2^26.
                at = np.int64((needed + 0.5) * inverse)
                if needs is not None:
                    needs.batch[needs.first[edge] + batch] = at
                available = starts[usable + at] + until_used
                if available > time:
                    time = available
            # `latest` is the start that leaves just enough time for the batches after this one.
            if time > latest:
                counted = batch
                break
            latest += period
            starts[out + batch] = time
    if counted < batches:
        return NEVER, counted
    return starts[out + batches - 1] + period, batches


@compiled_part
def needed_pixels(edges: Any, shapes: Any, edge: int, stage: int, last: int) -> tuple[int, int, int, int]:
    """Return (row, column) of the last pixel that block `last` of a stage needs, then of the rows above.

    Of one extent, -1 for none; the second pixel is the last that the rows of blocks above `last` need.
    """
    row, column = last // shapes.columns[stage], last % shapes.columns[stage]
    tall, top, image = shapes.tall[stage], shapes.top[stage], edges.image[stage]
    bottom = edges.table[edges.row[edge] + last_row(row, tall, top, image)]
    end = (column + 1) * shapes.wide[stage] - shapes.left[stage]
    right = edges.table[edges.column[edge] + min(end, edges.width[stage]) - 1]
    above = -1
    if row > 0:
        above = edges.table[edges.row[edge] + last_row(row - 1, tall, top, image)]
    return bottom, right, above, edges.table[edges.column[edge] + edges.width[stage] - 1]


@compiled_part
def needed_block(edges: Any, shapes: Any, edge: int, stage: int, p: int, last: int) -> int:
    """Return the last block of producer p that blocks 0 ... `last` of a stage need by one extent, or -1."""
    bottom, right, above, above_right = needed_pixels(edges, shapes, edge, stage, last)
    needed, per_tall, top = -1, 1.0 / shapes.tall[p], shapes.top[p] + 0.5
    if bottom >= 0 and right >= 0:
        needed = block_row(bottom, per_tall, top, edges.image[p]) * shapes.columns[p]
        needed += (right + shapes.left[p]) // shapes.wide[p]
    if above >= 0:
        blocks_above = block_row(above, per_tall, top, edges.image[p]) * shapes.columns[p]
        needed = max(needed, blocks_above + (above_right + shapes.left[p]) // shapes.wide[p])
    return needed


@compiled
def batch_starts(
    edges: Any, shapes: Any, ticks: Any, copies: Any, delay: int, starts: Any, first: Any
) -> int:
    """Write the start step of every batch of every stage; return the makespan.

    copies: int64 of length n; delay: 1 for handoff "next", 0 for "same"; starts: room for all batches,
    written; first: int64 of length n + 1, written: stage i has starts[first[i]] ... starts[first[i + 1] - 1].
    """
    makespan = 0
    first[0] = 0
    for stage in range(len(copies)):
        timeline = Timeline(copies, first, starts, delay)
        finish, batches = run_stage(edges, shapes, ticks, None, timeline, stage, first[stage], NEVER)
        first[stage + 1] = first[stage] + batches
        if finish > makespan:
            makespan = finish
    return makespan


@compiled
def critical_chain(
    edges: Any, shapes: Any, ticks: Any, timeline: Any, stage: int, eager: bool, enters: Any, leaves: Any
) -> None:
    """Follow batches that each start when the one before lets them, from the last of a stage to the start.

    edges, shapes, ticks, timeline: as for `run_stage`, of a schedule that was timed; eager: go on to the
    producer wherever a batch waits for it, else stay in a stage as long as possible. enters, leaves: int64 of
    length n, written: the first batch and the last block of every stage on the chain, -1 for stages off it.
    Producers come before their consumers, so each stage is on the chain at most once.
    """
    copies, begin, starts, delay = timeline
    for i in range(len(copies)):
        enters[i] = leaves[i] = -1
    leave: Any = np.int64((edges.windows[stage] if shapes is None else shapes.total[stage]) - 1)
    while stage >= 0:
        d, before, needed = copies[stage], -1, leave
        blocks = edges.windows[stage] if shapes is None else shapes.total[stage]
        period = ticks[stage]
        batch = leave // d
        while before < 0:
            time = starts[begin[stage] + batch]
            follows = batch > 0 and starts[begin[stage] + batch - 1] + period == time
            last = min((batch + 1) * d, blocks) - 1
            for edge in range(edges.pointer[stage], edges.pointer[stage + 1] if eager or not follows else 0):
                p = edges.producer[edge]
                if shapes is None:
                    block: Any = np.int64(edges.need[edges.offset[edge] + last])
                else:
                    block = np.int64(needed_block(edges, shapes, edge, stage, p, last))
                until_used = edges.lag[edge] + delay * ticks[p]
                if block >= 0 and starts[begin[p] + block // copies[p]] + until_used == time:
                    before, needed = p, block
                    break
            if not follows:
                break
            if before < 0:
                batch -= 1
        enters[stage], leaves[stage] = batch, leave
        stage, leave = before, needed


@compiled
def makespans(graph: Any, ticks: Any, copies: Any, delay: int, starts: Any, first: Any, result: Any) -> None:
    """Write the exact makespan of every row of `copies` (int64, k x n) to `result` (int64, k).

    ticks: int64, k x n, length of a batch of every stage in every row; starts, first: as for `batch_starts`,
    left with the times of the last row.
    """
    for row in range(len(copies)):
        result[row] = batch_starts(graph, None, ticks[row], copies[row], delay, starts, first)
