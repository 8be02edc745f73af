"""Compiled beam search: modes for all stages anew, many allocations of the first stages at a time.

Annealing changes one stage and leaves the others; in a deep network no single change lets a hundred stages
start a little earlier or later. A beam goes from the inputs to the outputs. An allocation guides it: which
pixels the stages still to come need, and until when, is taken from the guide under the target. A state is
known by how late its pixels are by that, at most, in three parts: the first half of the rows, the second one,
and the last pixel. For every three latenesses the state with the fewest arrays is kept, unless another is no
later in any and takes fewer. A state that is late is kept too, since later stages need not do what they do in
the guide. All of them are timed exactly.

Source: Ow and Morton, Filtered beam search in scheduling, International Journal of Production Research 26(1),
1988; what is kept of a layer is a restricted decision diagram (Bergman, Cire, van Hoeve and Hooker, Decision
Diagrams for Optimization, 2016, doi 10.1007/978-3-319-42849-9).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rramalloc.compiled import compiled, compiled_inline, compiled_part
from rramalloc.search.cost import BATCH_NS, BEAM_MODE_NS
from rramalloc.search.kernels.deadlines import set_deadlines
from rramalloc.search.kernels.limits import batches_of
from rramalloc.search.kernels.moves import write_shape, write_shapes
from rramalloc.search.kernels.schedule import time_all
from rramalloc.timing.kernel import NEVER, NEXT_STEP, Timeline, block_row, needed_pixels, run_stage

UNREACHED = 2**60
"""Arrays where no allocation was found that meets the target."""
LATENESSES = 3
"""Latenesses of a state, of these parts."""
_FIRST_HALF = 0  # lateness of the rows in the first half of a stage
_SECOND_HALF = 1  # lateness of the rows in the second half
_LAST = 2  # lateness of the last pixel


class BeamModes(NamedTuple):
    """Modes that a beam chooses from: rows first[i] ... first[i + 1] - 1 of stage i, by rising arrays; int64.

    block: number in the menu; rest: one for each stage, the fewest arrays of all stages after it.
    """

    first: Any
    block: Any
    copies: Any
    arrays: Any
    rest: Any


class Aim(NamedTuple):
    """A target makespan, the most arrays, and steps or ticks of lateness that count as one."""

    target: int
    most: int
    unit: int


class PixelDeadlines(NamedTuple):
    """Pixels that stages to come need, one row each, int64: of which stage, where, until when, in which part.

    time: latest finish of the batch that computes the pixel; part: the last pixel of a stage is a part of its
    own, each of the others counts for the half of the rows that the next one is in.
    """

    stage: Any
    row: Any
    column: Any
    time: Any
    part: Any


class Cells(NamedTuple):
    """A cell for every three latenesses, int64: its best state, and the fewest arrays of all no later.

    used: arrays of all stages so far; parent, mode: as in Trace.
    """

    used: Any
    parent: Any
    mode: Any
    least: Any


class Trace(NamedTuple):
    """The states that were kept, int64, n stages x width.

    parent: state of the stage before; mode: row of BeamModes; used: arrays of all stages so far; begin: where
    the starts of the stage's batches stand; states: one for each stage, how many there are.
    """

    parent: Any
    mode: Any
    used: Any
    begin: Any
    states: Any


class Beam(NamedTuple):
    """Working memory, and how much is kept.

    state: a State, that which is looked at; shapes, ticks, begin: of its stages; image: rows of an image of
    each; starts: of all states that are still read, those of stage k from place[k] on, longest[k] for each
    state; oldest[k]: the first stage that stage k or a later one reads, n + 1 of them; pixels: times of one
    stage; late: of a state, then of its parent.

    reach: latenesses from -reach to reach are told apart, later ones are dropped.
    """

    state: Any
    shapes: Any
    image: Any
    ticks: Any
    begin: Any
    starts: Any
    place: Any
    longest: Any
    oldest: Any
    pixels: Any
    late: Any
    pixel_deadlines: Any
    cells: Any
    trace: Any
    reach: int


@compiled_part
def _note(edges: Any, guide: Any, scratch: Any, at: int, p: int, pixels: Any) -> None:
    """Note until when the consumer of an edge of `deadlines` needs which pixels of stage p."""
    shapes, deadlines = scratch.shapes, scratch.deadlines
    edge, u, width = deadlines.edge[at], deadlines.user[at], edges.width[p]
    before = scratch.ticks[u] + edges.lag[edge]
    for batch in range(batches_of(shapes.total[u], guide.copies[u])):
        time = deadlines.finish[deadlines.begin[u] + batch] - before
        last = min((batch + 1) * guide.copies[u], shapes.total[u]) - 1
        bottom, right, above, above_right = needed_pixels(edges, shapes, edge, u, last)
        if bottom >= 0 and right >= 0:
            pixels[bottom * width + right] = min(pixels[bottom * width + right], time)
        if above >= 0 and above_right >= 0:
            pixels[above * width + above_right] = min(pixels[above * width + above_right], time)


@compiled_part
def _add_deadlines(edges: Any, guide: Any, scratch: Any, p: int, k: int, beam: Any, count: int) -> int:
    """Append the deadlines that stages after k set for stage p; return the new length.

    Left out is what another pixel, below or to the right, implies.
    """
    pixels = beam.pixels
    pixel_deadlines = beam.pixel_deadlines
    height = edges.height[p]
    width = edges.width[p]
    needed = False
    for at in range(scratch.deadlines.pointer[p], scratch.deadlines.pointer[p + 1]):
        if scratch.deadlines.user[at] > k:
            if not needed:
                for pixel in range(height * width):
                    pixels[pixel] = NEVER
            needed = True
            _note(edges, guide, scratch, at, p, pixels)
    if not needed:
        return count
    part = _LAST
    for y in range(height - 1, -1, -1):
        for x in range(width - 1, -1, -1):
            pixel, implied = y * width + x, NEVER
            if y + 1 < height:
                implied = pixels[pixel + width]
            if x + 1 < width:
                implied = min(implied, pixels[pixel + 1])
            if pixels[pixel] < implied:
                pixel_deadlines.stage[count], pixel_deadlines.row[count], pixel_deadlines.column[count] = (
                    p,
                    y,
                    x,
                )
                pixel_deadlines.time[count], pixel_deadlines.part[count] = pixels[pixel], part
                count += 1
                part = _SECOND_HALF if 2 * y >= height else _FIRST_HALF  # of the one before it
            else:
                pixels[pixel] = implied
    return count


@compiled_inline
def _raise_late(beam: Any, low: int, high: int, at: int) -> None:
    """Raise the latenesses late[at] ... by those of deadlines `low` ... `high` - 1."""
    shapes, copies, pixel_deadlines, late = beam.shapes, beam.state.copies, beam.pixel_deadlines, beam.late
    p: Any = np.int64(-1)
    for entry in range(low, high):
        if pixel_deadlines.stage[entry] != p:
            p = pixel_deadlines.stage[entry]
            per_tall, per_wide, inverse = 1.0 / shapes.tall[p], 1.0 / shapes.wide[p], 1.0 / copies[p]
            above, beside, columns = shapes.top[p] + 0.5, shapes.left[p] + 0.5, shapes.columns[p]
            begin, period, image = beam.begin[p], beam.ticks[p], beam.image[p]
        block = block_row(pixel_deadlines.row[entry], per_tall, above, image) * columns
        block += np.int64((pixel_deadlines.column[entry] + beside) * per_wide)
        time = beam.starts[begin + np.int64((block + 0.5) * inverse)] + period - pixel_deadlines.time[entry]
        part = at + pixel_deadlines.part[entry]
        if time > late[part]:
            late[part] = time


@compiled_part
def _choose(menu: Any, modes: Any, k: int, row: int, begin: int, beam: Any) -> None:
    """Give stage k a mode in the state that is looked at."""
    beam.state.block[k], beam.state.copies[k], beam.begin[k] = modes.block[row], modes.copies[row], begin
    write_shape(menu.blocks, menu.clock, beam.state, k, beam.shapes, beam.ticks)


@compiled_part
def _load(menu: Any, modes: Any, k: int, state: int, beam: Any) -> None:
    """Load the modes of state `state` of stage k - 1, as far back as stage k or a later one reads."""
    trace = beam.trace
    for i in range(k - 1, beam.oldest[k] - 1, -1):
        _choose(menu, modes, i, trace.mode[i, state], trace.begin[i, state], beam)
        state = trace.parent[i, state]


@compiled_part
def _run(edges: Any, k: int, begin: int, limit: int, beam: Any) -> tuple[int, int]:
    """Time stage k of the state that is looked at: as `run_stage`."""
    timeline = Timeline(beam.state.copies, beam.begin, beam.starts, NEXT_STEP)
    return run_stage(edges, beam.shapes, beam.ticks, None, timeline, k, begin, limit)


@compiled_inline
def _cell(beam: Any, unit: int) -> int:
    """Return the cell of the latenesses in `late`, -1 for too late."""
    reach, side, cell = beam.reach, 2 * beam.reach + 1, 0
    for part in range(LATENESSES):
        steps = 0
        if beam.late[part] > -NEVER:
            steps = max(reach - (-beam.late[part]) // unit, 0)
        if steps >= side:
            return -1
        cell = cell * side + steps
    return cell


@compiled_inline
def _expand(edges: Any, menu: Any, modes: Any, aim: Any, k: int, old: int, new: int, beam: Any) -> float:
    """Try all modes of stage k after every state of the stage before, into the cells; nanoseconds.

    old, new: deadlines of earlier stages alone, and with those of stage k.
    """
    cells, late, pixel_deadlines, trace = beam.cells, beam.late, beam.pixel_deadlines, beam.trace
    for cell in range(len(cells.used)):
        cells.used[cell] = UNREACHED
    limit, work, tried = aim.target, 0, 0
    if (
        new > old
        and pixel_deadlines.row[old] == edges.height[k] - 1
        and pixel_deadlines.column[old] == edges.width[k] - 1
    ):
        limit = min(
            limit, pixel_deadlines.time[old] + beam.reach * aim.unit
        )  # no state that ends later is kept
    spare = beam.place[k] + trace.used.shape[1] * beam.longest[k]
    per_batch = 1 + edges.pointer[k + 1] - edges.pointer[k]
    for state in range(trace.states[k - 1] if k else 1):
        before = trace.used[k - 1, state] if k else 0
        _load(menu, modes, k, state, beam)
        for part in range(LATENESSES):
            late[LATENESSES + part] = -NEVER
        _raise_late(beam, 0, old, LATENESSES)
        work += old
        for row in range(modes.first[k], modes.first[k + 1]):
            used = before + modes.arrays[row]
            if used + modes.rest[k] > aim.most:
                break
            _choose(menu, modes, k, row, spare, beam)
            finish, batches = _run(edges, k, spare, limit, beam)
            tried += 1
            work += batches * per_batch
            if finish == NEVER:
                continue
            for part in range(LATENESSES):
                late[part] = late[LATENESSES + part]
            _raise_late(beam, old, new, 0)
            work += new - old
            cell = _cell(beam, aim.unit)
            if cell >= 0 and used < cells.used[cell]:
                cells.used[cell], cells.parent[cell], cells.mode[cell] = used, state, row
    return BATCH_NS * work + BEAM_MODE_NS * tried


@compiled_part
def _keep_undominated(beam: Any, k: int) -> None:
    """Keep the states of the cells that no other makes useless, as many as there is room for."""
    cells, trace, side, kept = beam.cells, beam.trace, 2 * beam.reach + 1, 0
    steps = side * side, side, 1
    for cell in range(len(cells.used)):
        least, rest = UNREACHED, cell
        for part in range(LATENESSES):
            if rest >= steps[part]:
                least = min(least, cells.least[cell - steps[part]])
            rest %= steps[part]
        used = cells.used[cell]
        if used < UNREACHED and used <= least and kept < trace.used.shape[1]:
            trace.parent[k, kept], trace.mode[k, kept] = cells.parent[cell], cells.mode[cell]
            trace.used[k, kept] = used
            kept += 1
        cells.least[cell] = min(least, used)
    trace.states[k] = kept


@compiled_inline
def _time_kept(edges: Any, menu: Any, modes: Any, target: int, k: int, beam: Any) -> float:
    """Time stage k of the states that were kept, each in its own place; nanoseconds."""
    trace, work, loaded = beam.trace, 0, -1
    for state in range(trace.states[k]):
        if trace.parent[k, state] != loaded:
            loaded = trace.parent[k, state]
            _load(menu, modes, k, loaded, beam)
        begin = beam.place[k] + state * beam.longest[k]
        trace.begin[k, state] = begin
        _choose(menu, modes, k, trace.mode[k, state], begin, beam)
        _, batches = _run(edges, k, begin, target, beam)
        work += batches * (1 + edges.pointer[k + 1] - edges.pointer[k])
    return BATCH_NS * work


@compiled
def beam_search(
    edges: Any, menu: Any, modes: Any, aim: Any, current: Any, scratch: Any, beam: Any
) -> tuple[int, float]:
    """Choose modes for all stages that meet the aim, guided by `current`.

    The allocation with the fewest arrays that is found is written to `current`. Returns its arrays,
    UNREACHED if none is found, and nanoseconds counted.
    """
    n, trace, shapes, ticks = len(current.block), beam.trace, scratch.shapes, scratch.ticks
    write_shapes(menu.blocks, menu.clock, current, shapes, ticks)
    _, work = time_all(edges, shapes, ticks, current.copies, scratch.schedule)
    needs, deadlines = scratch.schedule.needs, scratch.deadlines
    set_deadlines(edges, shapes, ticks, current.copies, needs, aim.target, deadlines)
    spent_ns = BATCH_NS * work
    for k in range(n):
        old = 0
        for p in range(beam.oldest[k + 1], k):
            old = _add_deadlines(edges, current, scratch, p, k, beam, old)
        new = _add_deadlines(edges, current, scratch, k, k, beam, old)
        spent_ns += _expand(edges, menu, modes, aim, k, old, new, beam)
        _keep_undominated(beam, k)
        if trace.states[k] == 0:
            return UNREACHED, spent_ns
        spent_ns += _time_kept(edges, menu, modes, aim.target, k, beam)
    best = 0
    for state in range(trace.states[n - 1]):
        if trace.used[n - 1, state] < trace.used[n - 1, best]:
            best = state
    arrays = trace.used[n - 1, best]
    for i in range(n - 1, -1, -1):
        row = trace.mode[i, best]
        current.block[i], current.copies[i] = modes.block[row], modes.copies[row]
        best = trace.parent[i, best]
    return arrays, spent_ns
