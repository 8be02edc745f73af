"""DenseNet-121: every layer sees the concatenation of all earlier ones of its block."""

from __future__ import annotations

from definitions.builder import Builder
from rramalloc.network.network import Network

_LAYERS = {2: 6, 3: 12, 4: 24, 5: 16}
_GROWTH = 32


def densenet121() -> Network:
    """DenseNet-121, equal to the graph that ONNX ships."""
    net = Builder(
        "densenet121",
        "Huang et al., Densely Connected Convolutional Networks, CVPR 2017; structure equal to "
        "light_densenet121.onnx of the onnx package (the classifier is a 1 x 1 convolution; a batch "
        "normalisation and the scale and offset after it are one node here).",
        (3, 224, 224),
    )
    net.conv("conv1", 64, 7, stride=2, pads=3)
    _normalise(net, "conv1")
    net.maxpool("pool1", 3, 2, 1)
    channels = 64
    for block, layers in _LAYERS.items():
        for index in range(1, layers + 1):
            _layer(net, f"conv{block}_{index}")
        channels += layers * _GROWTH
        _normalise(net, f"conv{block}_blk")
        if block < 5:
            channels //= 2
            net.conv(f"conv{block}_blk", channels, 1)
            net.avgpool(f"pool{block}", 2, 2)
    net.add("global_avgpool", "pool5")
    net.conv("fc6", 1000, 1)
    return net.build()


def _layer(net: Builder, name: str) -> None:
    source = net.last
    _normalise(net, f"{name}/x1")
    net.conv(f"{name}/x1", 4 * _GROWTH, 1)
    _normalise(net, f"{name}/x2")
    net.conv(f"{name}/x2", _GROWTH, 3, pads=1)
    net.concat(f"{name}/concat", source, net.last)


def _normalise(net: Builder, name: str) -> None:
    net.batchnorm(f"{name}/bn")
    net.relu(f"{name}/relu")
