"""Pixels that move between images and grid: `regrid` against every pixel (docs/sources/model.md 2)."""

from __future__ import annotations

import itertools
import random

import numpy as np
import numpy.typing as npt

from rramalloc.importers.axes import IMAGES, Atom, AxisRoles, Regridding, regriddings

Pixels = npt.NDArray[np.int64]


def laid_out(dims: tuple[int, ...], layout: AxisRoles) -> Pixels:
    """Number of the element at every place: (images, height, width). Every axis is one factor."""
    sides = [
        sorted((role[0].level, axis) for axis, role in enumerate(layout) if role[0].grid == grid)
        for grid in (IMAGES, 0, 1)
    ]
    order = [axis for side in sides for _, axis in side]
    elements = np.arange(np.prod(dims)).reshape(dims).transpose(order)
    return elements.reshape([int(np.prod([dims[axis] for _, axis in side], dtype=int)) for side in sides])


def windows(pixels: Pixels, grid: tuple[int, int], order: str) -> Pixels:
    """Cut every image into windows, one by one, in raster order of the windows."""
    cut = []
    for image in pixels:
        high, wide = image.shape[0] // grid[0], image.shape[1] // grid[1]
        for a, b in itertools.product(range(high), range(wide)):
            if order == "windows":
                cut.append(image[a * grid[0] : (a + 1) * grid[0], b * grid[1] : (b + 1) * grid[1]])
            else:
                cut.append(image[a::high, b::wide])
    return np.stack(cut)


def moved(pixels: Pixels, made: Regridding) -> Pixels:
    if made.order == "raster":
        return pixels.reshape(made.images, *made.grid)
    if made.images >= len(pixels):
        return windows(pixels, made.grid, made.order)
    together = np.zeros((made.images, *made.grid), dtype=np.int64)
    places = windows(np.arange(together.size).reshape(together.shape), pixels.shape[1:], made.order)
    together.ravel()[places.ravel()] = pixels.ravel()
    return together


def test_pixels_go_where_the_layout_says() -> None:
    """Four factors on any side in any order, to any other: where steps are found, they are right."""
    drawn, found = random.Random(1), 0
    for _ in range(1500):
        dims = tuple(drawn.choice((2, 3)) for _ in range(4))
        have, want = (
            tuple(
                (Atom(size, drawn.choice((IMAGES, 0, 1)), (level,)),)
                for size, level in zip(dims, drawn.sample(range(4), 4), strict=True)
            )
            for _ in range(2)
        )
        pixels = laid_out(dims, have)
        steps = regriddings(have, want, dims)
        for _, made in steps:
            pixels = moved(pixels, made)
        if steps:
            found += 1
            assert np.array_equal(pixels, laid_out(dims, want))
    assert found > 100
