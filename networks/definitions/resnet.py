"""ResNet: residual blocks as in torchvision, node names as in its modules."""

from __future__ import annotations

from definitions.builder import Builder
from rramalloc.network.network import Network

_WIDTHS = (64, 128, 256, 512)


def resnet18() -> Network:
    """ResNet-18, basic blocks."""
    return _resnet("resnet18", (2, 2, 2, 2), bottleneck=False)


def resnet50() -> Network:
    """ResNet-50, bottleneck blocks."""
    return _resnet("resnet50", (3, 4, 6, 3), bottleneck=True)


def resnet152() -> Network:
    """ResNet-152, bottleneck blocks."""
    return _resnet("resnet152", (3, 8, 36, 3), bottleneck=True)


def _resnet(name: str, depths: tuple[int, ...], *, bottleneck: bool) -> Network:
    variant = " (v1.5: a block's stride is on its 3 x 3 convolution)" if bottleneck else ""
    net = Builder(
        name,
        "He et al., Deep Residual Learning for Image Recognition, CVPR 2016; "
        f"as in torchvision's {name}{variant}.",
        (3, 224, 224),
    )
    net.conv("conv1", 64, 7, stride=2, pads=3)
    net.batchnorm("bn1")
    net.relu("relu")
    net.maxpool("maxpool", 3, 2, 1)
    for layer, (depth, width) in enumerate(zip(depths, _WIDTHS, strict=True), start=1):
        for index in range(depth):
            stride = 2 if layer > 1 and index == 0 else 1
            widens = index == 0 and (bottleneck or layer > 1)
            _block(net, f"layer{layer}.{index}", width, stride, bottleneck=bottleneck, widens=widens)
    net.add("global_avgpool", "avgpool")
    net.add("flatten", "flatten")
    net.linear("fc", 1000)
    return net.build()


def _block(net: Builder, name: str, width: int, stride: int, *, bottleneck: bool, widens: bool) -> None:
    """(channels, kernel, stride) of the convolutions, then the sum with the shortcut."""
    basic = ((width, 3, stride), (width, 3, 1))
    convs = ((width, 1, 1), (width, 3, stride), (4 * width, 1, 1)) if bottleneck else basic
    shortcut = net.last
    source = net.last
    for index, (channels, kernel, step) in enumerate(convs, start=1):
        net.conv(f"{name}.conv{index}", channels, kernel, stride=step, pads=kernel // 2)
        net.batchnorm(f"{name}.bn{index}")
        if index < len(convs):
            net.relu(f"{name}.relu{index}")
    branch = net.last
    if widens:
        net.conv(f"{name}.downsample.0", convs[-1][0], 1, stride=stride, after=source)
        shortcut = net.batchnorm(f"{name}.downsample.1")
    net.total(f"{name}.add", branch, shortcut)
    net.relu(f"{name}.relu{len(convs)}")
