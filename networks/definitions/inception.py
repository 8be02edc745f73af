"""Inception v1 (GoogLeNet): modules of four parallel branches."""

from __future__ import annotations

from definitions.builder import Builder
from rramalloc.network.network import Network

_MODULES = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
"""Channels of 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5 and pool projection: table 1 of the paper."""


def inception_v1() -> Network:
    """GoogLeNet without auxiliary classifiers, equal to the graph that ONNX ships."""
    net = Builder(
        "inception_v1",
        "Szegedy et al., Going Deeper with Convolutions, CVPR 2015, table 1; without auxiliary classifiers, "
        "structure equal to light_inception_v1.onnx of the onnx package (BVLC GoogLeNet with pooling that "
        "rounds down). Local response normalisation is an 'activation' here: it acts over channels.",
        (3, 224, 224),
    )
    net.conv("conv1/7x7_s2", 64, 7, stride=2, pads=3)
    net.relu("conv1/relu")
    net.maxpool("pool1", 3, 2)
    net.add("activation", "norm1")
    net.conv("conv2/3x3_reduce", 64, 1)
    net.relu("conv2/relu_reduce")
    net.conv("conv2/3x3", 192, 3, pads=1)
    net.relu("conv2/relu")
    net.add("activation", "norm2")
    net.maxpool("pool2", 3, 2)
    for name, channels in _MODULES.items():
        _module(net, f"inception_{name}", channels)
        if name in ("3b", "4e"):
            net.maxpool(f"pool{name[0]}", 3, 2)
    net.avgpool("pool5", 7, 1, (0, 0, 1, 1))
    net.add("dropout", "drop")
    net.add("flatten", "flatten")
    net.linear("classifier", 1000)
    net.add("softmax", "softmax")
    return net.build()


def _module(net: Builder, name: str, channels: tuple[int, ...]) -> None:
    single, reduce3, wide3, reduce5, wide5, projected = channels
    source = net.last
    branches = [_branch(net, f"{name}/1x1", single, 1, source)]
    _branch(net, f"{name}/3x3_reduce", reduce3, 1, source)
    branches.append(_branch(net, f"{name}/3x3", wide3, 3, net.last))
    _branch(net, f"{name}/5x5_reduce", reduce5, 1, source)
    branches.append(_branch(net, f"{name}/5x5", wide5, 5, net.last))
    net.maxpool(f"{name}/pool", 3, 1, 1, after=source)
    branches.append(_branch(net, f"{name}/pool_proj", projected, 1, net.last))
    net.concat(f"{name}/concat", *branches)


def _branch(net: Builder, name: str, channels: int, kernel: int, after: str) -> str:
    net.conv(name, channels, kernel, pads=kernel // 2, after=after)
    return net.relu(f"{name}/relu")
