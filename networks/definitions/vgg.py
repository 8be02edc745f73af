"""VGG: 3 x 3 convolutions in five blocks, each closed by a 2 x 2 pooling."""

from __future__ import annotations

from definitions.builder import Builder
from rramalloc.network.network import Network

_CHANNELS = (64, 128, 256, 512, 512)


def vgg11() -> Network:
    """VGG configuration A."""
    return _vgg("vgg11", "A", (1, 1, 2, 2, 2))


def vgg16() -> Network:
    """VGG configuration D."""
    return _vgg("vgg16", "D", (2, 2, 3, 3, 3))


def vgg19() -> Network:
    """VGG configuration E."""
    return _vgg("vgg19", "E", (2, 2, 4, 4, 4))


def _vgg(name: str, configuration: str, convs: tuple[int, ...]) -> Network:
    net = Builder(
        name,
        "Simonyan and Zisserman, Very Deep Convolutional Networks for Large-Scale Image Recognition, ICLR "
        f"2015, configuration {configuration}; as in torchvision's {name}, without batch normalisation.",
        (3, 224, 224),
    )
    for block, (count, channels) in enumerate(zip(convs, _CHANNELS, strict=True), start=1):
        for index in range(1, count + 1):
            net.conv(f"conv{block}_{index}", channels, 3, pads=1)
            net.relu(f"relu{block}_{index}")
        net.maxpool(f"pool{block}", 2, 2)
    net.add("flatten", "flatten")
    for index in (6, 7):
        net.linear(f"fc{index}", 4096)
        net.relu(f"relu{index}")
        net.add("dropout", f"drop{index}")
    net.linear("fc8", 1000)
    return net.build()
