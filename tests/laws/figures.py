"""Published figures that several tests hold the searches against (docs/sources/model.md 9)."""

from __future__ import annotations

import pytest

PUBLISHED_STEPS = [
    pytest.param("alexnet_todaes", 1024, 113, id="AlexNet, 1024"),
    pytest.param("alexnet_todaes", 2048, 49, id="AlexNet, 2048"),
    pytest.param("vgg11", 2048, 329, id="VGG-A, 2048"),
    pytest.param("vgg11", 4096, 162, id="VGG-A, 4096"),
]
"""(network, arrays, steps by the published method) on crossbars of 128 x 128; column P."""
