"""SqueezeNet 1.1: fire modules of a squeeze convolution and two parallel expand convolutions."""

from __future__ import annotations

from definitions.builder import Builder
from rramalloc.network.network import Network

_SQUEEZE = {2: 16, 3: 16, 4: 32, 5: 32, 6: 48, 7: 48, 8: 64, 9: 64}


def squeezenet() -> Network:
    """SqueezeNet 1.1, equal to the graph that ONNX ships."""
    net = Builder(
        "squeezenet",
        "Iandola et al., SqueezeNet: AlexNet-level accuracy with 50x fewer parameters, arXiv:1602.07360, "
        "2016; version 1.1 (first convolution 3 x 3 with 64 channels), structure equal to "
        "light_squeezenet.onnx of the onnx package.",
        (3, 224, 224),
    )
    net.conv("conv1", 64, 3, stride=2)
    net.relu("relu_conv1")
    net.maxpool("pool1", 3, 2)
    for index, squeeze in _SQUEEZE.items():
        _fire(net, f"fire{index}", squeeze, expand=4 * squeeze)
        if index in (3, 5):
            net.maxpool(f"pool{index}", 3, 2)
    net.add("dropout", "drop9")
    net.conv("conv10", 1000, 1)
    net.relu("relu_conv10")
    net.add("global_avgpool", "pool10")
    net.add("softmax", "softmax")
    return net.build()


def _fire(net: Builder, name: str, squeeze: int, expand: int) -> None:
    net.conv(f"{name}/squeeze1x1", squeeze, 1)
    squeezed = net.relu(f"{name}/relu_squeeze1x1")
    net.conv(f"{name}/expand1x1", expand, 1)
    small = net.relu(f"{name}/relu_expand1x1")
    net.conv(f"{name}/expand3x3", expand, 3, pads=1, after=squeezed)
    large = net.relu(f"{name}/relu_expand3x3")
    net.concat(f"{name}/concat", small, large)
