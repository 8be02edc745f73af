"""ShuffleNet: grouped 1 x 1 convolutions with a channel shuffle between them."""

from __future__ import annotations

from definitions.builder import Builder
from rramalloc.network.network import Network

_GROUPS = 4
_STAGES = ((136, 4), (272, 8), (544, 4))
"""Output channels and units of stages 2 to 4."""
_FIRST_WIDTH = 112
"""Channels of the first unit: with the 24 of the pooled shortcut they make 136."""


def shufflenet() -> Network:
    """ShuffleNet with 4 groups, equal to the graph that ONNX ships."""
    net = Builder(
        "shufflenet",
        "Zhang et al., ShuffleNet: An Extremely Efficient Convolutional Neural Network for Mobile Devices, "
        "CVPR 2018; structure equal to light_shufflenet.onnx of the onnx package (4 groups, stages of "
        "136, 272 and 544 channels, units as wide inside as outside). A channel shuffle is an 'identity'.",
        (3, 224, 224),
    )
    net.conv("conv1", 24, 3, stride=2, pads=1)
    net.batchnorm("conv1.bn")
    net.relu("conv1.relu")
    net.maxpool("pool1", 3, 2, 1)
    channels = 24
    for stage, (widened, units) in enumerate(_STAGES, start=2):
        for unit in range(1, units + 1):
            reduces = unit == 1
            width = (_FIRST_WIDTH if stage == 2 else widened - channels) if reduces else widened
            _unit(net, f"stage{stage}.{unit}", width, reduces=reduces)
        channels = widened
    net.avgpool("pool5", 7, 1)
    net.add("flatten", "flatten")
    net.linear("fc", 1000)
    net.add("softmax", "softmax")
    return net.build()


def _unit(net: Builder, name: str, width: int, *, reduces: bool) -> None:
    """Add a unit: one that halves the grid concatenates its pooled input, any other adds its input."""
    source = net.last
    net.conv(f"{name}.gconv1", width, 1, groups=_GROUPS)
    net.batchnorm(f"{name}.gconv1.bn")
    net.relu(f"{name}.gconv1.relu")
    net.add("identity", f"{name}.shuffle")
    net.conv(f"{name}.depthwise", width, 3, stride=2 if reduces else 1, pads=1, groups=width)
    net.batchnorm(f"{name}.depthwise.bn")
    net.conv(f"{name}.gconv2", width, 1, groups=_GROUPS)
    branch = net.batchnorm(f"{name}.gconv2.bn")
    if reduces:
        net.concat(f"{name}.concat", branch, net.avgpool(f"{name}.pool", 3, 2, 1, after=source))
    else:
        net.total(f"{name}.add", branch, source)
    net.relu(f"{name}.relu")
