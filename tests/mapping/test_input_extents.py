"""Pixels that neighbouring windows read: counted without listing them, equal to the list."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from laws.strategies import randoms

from rramalloc.commands.place.check import _pixels_read
from rramalloc.mapping.modes import input_extent, input_extents
from rramalloc.network.node import Conv, ConvTranspose


@settings(max_examples=300, deadline=None)
@given(randoms)
def test_pixels_read_by_neighbouring_windows(random: Random) -> None:
    """docs/sources/model.md 10: U is the number of different y * stride + k * dilation."""
    kernel, stride, dilation = (random.randint(1, most) for most in (7, 5, 5))
    shape: dict[str, Any] = {"kernel": [kernel, 1], "stride": [stride, 1], "dilation": [dilation, 1]}
    conv = Conv(name="c", inputs=("in",), out_channels=1, **shape)
    up = ConvTranspose(name="u", inputs=("in",), out_channels=1, **shape)
    most = random.randint(1, 14)
    read, reached = set[int](), set[int]()
    for window in range(most):
        read |= {window * stride + k * dilation for k in range(kernel)}
        taps = [window - k * dilation for k in range(kernel)]
        reached |= {tap // stride for tap in taps if tap % stride == 0}
        assert input_extents(conv, 0, most)[window] == input_extent(conv, 0, window + 1) == len(read)
        assert _pixels_read(conv, 0, window + 1) == len(read)
        assert input_extents(up, 0, most)[window] == input_extent(up, 0, window + 1) == len(reached)
        if (window + 1) % stride == 0:
            assert _pixels_read(up, 0, window + 1) == len(reached)
    assert input_extents(conv, 1, 2).tolist() == [1, 2]
