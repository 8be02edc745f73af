"""AlexNet: torchvision's single-tower variant and the one of the published allocation method."""

from __future__ import annotations

from definitions.builder import Builder
from rramalloc.network.network import Network

_CLASSIFIER = ((6, 4096), (7, 4096), (8, 1000))


def alexnet() -> Network:
    """AlexNet of torchvision."""
    net = Builder(
        "alexnet",
        "Krizhevsky, One weird trick for parallelizing convolutional neural networks, arXiv:1404.5997, 2014; "
        "AlexNet as in torchvision (one tower, 64 192 384 256 256 channels, input 224).",
        (3, 224, 224),
    )
    net.conv("conv1", 64, 11, stride=4, pads=2)
    net.relu("relu1")
    net.maxpool("pool1", 3, 2)
    net.conv("conv2", 192, 5, pads=2)
    net.relu("relu2")
    net.maxpool("pool2", 3, 2)
    for index, channels in ((3, 384), (4, 256), (5, 256)):
        net.conv(f"conv{index}", channels, 3, pads=1)
        net.relu(f"relu{index}")
    net.maxpool("pool5", 3, 2)
    net.add("flatten", "flatten")
    for index, features in _CLASSIFIER:
        if index < 8:
            net.add("dropout", f"drop{index}")
        net.linear(f"fc{index}", features)
        if index < 8:
            net.relu(f"relu{index}")
    return net.build()


def alexnet_todaes() -> Network:
    """AlexNet with the layer table of ACM TODAES 29(1):21."""
    net = Builder(
        "alexnet_todaes",
        "Krizhevsky et al., ImageNet Classification with Deep Convolutional Neural Networks, NIPS 2012, "
        "without groups; conv and pooling layers as in the layer table of ACM TODAES 29(1):21, "
        "doi 10.1145/3631523 (input 227; conv padding 0 2 1 1 1, which reproduces its figures: the printed "
        "row is a misprint), fully connected layers as in NIPS 2012.",
        (3, 227, 227),
    )
    net.conv("conv1", 96, 11, stride=4)
    net.relu("relu1")
    net.maxpool("pool1", 3, 2)
    net.conv("conv2", 256, 5, pads=2)
    net.relu("relu2")
    net.maxpool("pool2", 3, 2)
    for index, channels in ((3, 384), (4, 384), (5, 256)):
        net.conv(f"conv{index}", channels, 3, pads=1)
        net.relu(f"relu{index}")
    net.maxpool("pool5", 3, 2)
    net.add("flatten", "flatten")
    for index, features in _CLASSIFIER:
        net.linear(f"fc{index}", features)
        if index < 8:
            net.relu(f"relu{index}")
            net.add("dropout", f"drop{index}")
    return net.build()
