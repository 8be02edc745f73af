"""Tiny YOLOv2: a detector of nine convolutions."""

from __future__ import annotations

from definitions.builder import Builder
from rramalloc.network.network import Network


def tiny_yolov2() -> Network:
    """Tiny YOLOv2 for the 20 classes of Pascal VOC."""
    net = Builder(
        "tiny_yolov2",
        "Redmon and Farhadi, YOLO9000: Better, Faster, Stronger, CVPR 2017; Tiny YOLOv2 as in Darknet's "
        "tiny-yolo-voc.cfg (input 416, 5 anchors, 20 classes: 125 output channels; the sixth pooling has "
        "stride 1 and pads below and at the right). Leaky ReLU is an 'activation'.",
        (3, 416, 416),
    )
    for index, channels in enumerate((16, 32, 64, 128, 256, 512, 1024, 1024), start=1):
        net.conv(f"conv{index}", channels, 3, pads=1)
        net.batchnorm(f"bn{index}")
        net.add("activation", f"leaky{index}")
        if index < 6:
            net.maxpool(f"pool{index}", 2, 2)
        elif index == 6:
            net.maxpool(f"pool{index}", 2, 1, (0, 0, 1, 1))
    net.conv("conv9", 125, 1)
    return net.build()
