"""Networks of MLPerf Tiny: ResNet-8, DS-CNN and an autoencoder; its MobileNet is in mobilenet.py."""

from __future__ import annotations

from definitions.builder import Builder, Pads
from rramalloc.network.network import Network

_SUITE = "MLPerf Tiny (Banbury et al., MLPerf Tiny Benchmark, NeurIPS Datasets and Benchmarks 2021)"
_SAME = "'same' padding as in TensorFlow and Keras"


def resnet8() -> Network:
    """ResNet-8 for CIFAR-10: three stacks of one basic block each."""
    net = Builder(
        "resnet8",
        f"{_SUITE}, image classification: resnet_v1_eembc of keras_model.py with 16 filters, CIFAR-10; "
        f"{_SAME}: stride 2 pads below and at the right only.",
        (3, 32, 32),
    )
    net.conv("conv1", 16, 3, pads=1)
    net.batchnorm("conv1.bn")
    net.relu("conv1.relu")
    for index, (channels, stride) in enumerate(((16, 1), (32, 2), (64, 2)), start=1):
        _residual(net, f"stack{index}", channels, stride)
    net.add("global_avgpool", "avgpool")
    net.add("flatten", "flatten")
    net.linear("fc", 10)
    net.add("softmax", "softmax")
    return net.build()


def _residual(net: Builder, name: str, channels: int, stride: int) -> None:
    source = net.last
    shortcut = net.last
    pads: Pads = 1 if stride == 1 else (0, 0, 1, 1)
    net.conv(f"{name}.conv1", channels, 3, stride=stride, pads=pads)
    net.batchnorm(f"{name}.bn1")
    net.relu(f"{name}.relu1")
    net.conv(f"{name}.conv2", channels, 3, pads=1)
    branch = net.batchnorm(f"{name}.bn2")
    if stride > 1:
        shortcut = net.conv(f"{name}.shortcut", channels, 1, stride=stride, after=source)
    net.total(f"{name}.add", shortcut, branch)
    net.relu(f"{name}.relu2")


def ds_cnn() -> Network:
    """DS-CNN for keyword spotting: 49 frames of 10 coefficients, 64 filters, 12 words."""
    net = Builder(
        "ds_cnn",
        f"{_SUITE}, keyword spotting: ds_cnn of keras_model.py, 49 frames of 10 MFCCs (after Zhang et al., "
        f"Hello Edge, arXiv:1711.07128, 2017); {_SAME}: 4 rows above and 5 below.",
        (1, 49, 10),
    )
    net.conv("conv1", 64, (10, 4), stride=2, pads=(4, 1, 5, 1))
    _normalise(net, "conv1")
    for index in range(1, 5):
        net.conv(f"conv_dw_{index}", 64, 3, pads=1, groups=64)
        _normalise(net, f"conv_dw_{index}")
        net.conv(f"conv_pw_{index}", 64, 1)
        _normalise(net, f"conv_pw_{index}")
    net.add("dropout", "dropout")
    net.add("global_avgpool", "avgpool")
    net.add("flatten", "flatten")
    net.linear("fc", 12)
    net.add("softmax", "softmax")
    return net.build()


def autoencoder() -> Network:
    """Autoencoder for anomaly detection: ten layers on one vector of 640 values."""
    net = Builder(
        "autoencoder",
        f"{_SUITE}, anomaly detection: keras_model.py, 5 frames of 128 mel bins in, the same out; each layer "
        "is on one vector, so all of them are on arrays.",
        (640, 1, 1),
    )
    for index, features in enumerate((128, 128, 128, 128, 8, 128, 128, 128, 128), start=1):
        net.linear(f"fc{index}", features)
        _normalise(net, f"fc{index}")
    net.linear("fc10", 640)
    return net.build()


def _normalise(net: Builder, name: str) -> None:
    net.batchnorm(f"{name}.bn")
    net.relu(f"{name}.relu")
