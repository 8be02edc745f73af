"""U-Net: an encoder and a decoder joined by concatenations."""

from __future__ import annotations

from definitions.builder import Builder
from rramalloc.network.network import Network

_WIDTHS = (64, 128, 256, 512, 1024)


def unet() -> Network:
    """U-Net with padded convolutions and transposed convolutions."""
    net = Builder(
        "unet",
        "Ronneberger et al., U-Net: Convolutional Networks for Biomedical Image Segmentation, MICCAI 2015; "
        "variant of the reference implementation milesial/Pytorch-UNet (padded convolutions with batch "
        "normalisation, base width 64, 2 classes), input 256. A 2 x 2 transposed convolution of stride 2 is "
        "an upsampling by 2 and a 2 x 2 convolution padded above and at the left: same weights, same last "
        "input pixel for every output pixel; its multiplications by inserted zeros count as MACs.",
        (3, 256, 256),
    )
    skips = []
    for level, width in enumerate(_WIDTHS):
        if level:
            net.maxpool(f"down{level}.pool", 2, 2)
        skips.append(_double_conv(net, f"down{level}" if level else "inc", width))
    for level, width in enumerate(reversed(_WIDTHS[:-1]), start=1):
        net.add("upsample", f"up{level}.enlarge", scale=2)
        enlarged = net.conv(f"up{level}.up", width, 2, pads=(1, 1, 0, 0))
        net.concat(f"up{level}.concat", skips[-1 - level], enlarged)
        _double_conv(net, f"up{level}", width)
    net.conv("outc", 2, 1)
    return net.build()


def _double_conv(net: Builder, name: str, width: int) -> str:
    for index in (1, 2):
        net.conv(f"{name}.conv{index}", width, 3, pads=1)
        net.batchnorm(f"{name}.bn{index}")
        net.relu(f"{name}.relu{index}")
    return net.last
