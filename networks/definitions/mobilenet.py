"""MobileNet v1 and v2: depthwise separable convolutions."""

from __future__ import annotations

from definitions.builder import Builder
from rramalloc.network.network import Network

_V1_BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *(((512, 1),) * 5),
    (1024, 2),
    (1024, 1),
)
"""Output channels and stride of each depthwise separable block: table 1 of the paper."""

_V2_BLOCKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, output channels, repeats and first stride: table 2 of the paper."""


_V1_SOURCE = (
    "Howard et al., MobileNets: Efficient Convolutional Neural Networks for Mobile Vision Applications, "
    "arXiv:1704.04861, 2017"
)
_SAME_PADDING = "'same' padding as in TensorFlow and Keras: stride 2 pads below and at the right only."


def mobilenet_v1() -> Network:
    """MobileNet 1.0 224."""
    net = Builder(
        "mobilenet_v1",
        f"{_V1_SOURCE}, table 1 (width 1.0, input 224); {_SAME_PADDING} ReLU6 is an 'activation'.",
        (3, 224, 224),
    )
    return _v1(net, fraction=1, classes=1000)


def mobilenet_v1_025() -> Network:
    """MobileNet 0.25 96 of MLPerf Tiny, visual wake words."""
    net = Builder(
        "mobilenet_v1_025",
        f"{_V1_SOURCE}, with a quarter of the channels, input 96, two classes: visual wake words of MLPerf "
        "Tiny (Banbury et al., MLPerf Tiny Benchmark, NeurIPS Datasets and Benchmarks 2021), vww_model.py; "
        f"{_SAME_PADDING} Its ReLU is an 'activation'.",
        (3, 96, 96),
    )
    return _v1(net, fraction=4, classes=2)


def _v1(net: Builder, *, fraction: int, classes: int) -> Network:
    """Return MobileNet v1 with 1 / fraction of the channels."""
    channels = 32 // fraction
    net.conv("conv1", channels, 3, stride=2, pads=(0, 0, 1, 1))
    _normalise(net, "conv1")
    for index, (widened, stride) in enumerate(_V1_BLOCKS, start=1):
        pads = 1 if stride == 1 else (0, 0, 1, 1)
        net.conv(f"conv_dw_{index}", channels, 3, stride=stride, pads=pads, groups=channels)
        _normalise(net, f"conv_dw_{index}")
        channels = widened // fraction
        net.conv(f"conv_pw_{index}", channels, 1)
        _normalise(net, f"conv_pw_{index}")
    net.add("global_avgpool", "avgpool")
    net.add("flatten", "flatten")
    net.add("dropout", "dropout")
    net.linear("fc", classes)
    net.add("softmax", "softmax")
    return net.build()


def mobilenet_v2() -> Network:
    """MobileNet v2 1.0 224."""
    net = Builder(
        "mobilenet_v2",
        "Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, CVPR 2018, table 2; "
        "as in torchvision (width 1.0, input 224). ReLU6 is an 'activation'.",
        (3, 224, 224),
    )
    net.conv("conv1", 32, 3, stride=2, pads=1)
    _normalise(net, "conv1")
    channels, index = 32, 0
    for expansion, widened, repeats, first_stride in _V2_BLOCKS:
        for repeat in range(repeats):
            index += 1
            stride = first_stride if repeat == 0 else 1
            _inverted_residual(net, f"block{index}", channels, expansion, widened, stride)
            channels = widened
    net.conv("conv2", 1280, 1)
    _normalise(net, "conv2")
    net.add("global_avgpool", "avgpool")
    net.add("flatten", "flatten")
    net.add("dropout", "dropout")
    net.linear("fc", 1000)
    return net.build()


def _inverted_residual(
    net: Builder, name: str, channels: int, expansion: int, widened: int, stride: int
) -> None:
    source, hidden = net.last, channels * expansion
    if expansion > 1:
        net.conv(f"{name}.expand", hidden, 1)
        _normalise(net, f"{name}.expand")
    net.conv(f"{name}.depthwise", hidden, 3, stride=stride, pads=1, groups=hidden)
    _normalise(net, f"{name}.depthwise")
    net.conv(f"{name}.project", widened, 1)
    net.batchnorm(f"{name}.project.bn")
    if stride == 1 and channels == widened:
        net.total(f"{name}.add", source, net.last)


def _normalise(net: Builder, name: str) -> None:
    net.batchnorm(f"{name}.bn")
    net.add("activation", f"{name}.relu6")
