"""Tiny YOLO: detectors of nine, thirteen and twenty-one convolutions."""

from __future__ import annotations

from definitions.builder import Builder
from rramalloc.network.network import Network

_SIZE = 416
_COCO_CHANNELS = 3 * (80 + 5)  # three anchors a scale, each with 80 classes, a box and its confidence


def tiny_yolov2() -> Network:
    """Tiny YOLOv2 for the 20 classes of Pascal VOC."""
    net = _Darknet(
        "tiny_yolov2",
        "Redmon and Farhadi, YOLO9000: Better, Faster, Stronger, CVPR 2017; Tiny YOLOv2 as in Darknet's "
        "tiny-yolo-voc.cfg (input 416, 5 anchors, 20 classes: 125 output channels; the sixth pooling has "
        "stride 1 and pads below and at the right). Leaky ReLU is an 'activation'.",
        (3, _SIZE, _SIZE),
    )
    net.backbone((16, 32, 64, 128, 256, 512))
    net.block(7, 1024, 3)
    net.block(8, 1024, 3)
    net.conv("conv9", 125, 1)
    return net.build()


def tiny_yolov3() -> Network:
    """Tiny YOLOv3 for the 80 classes of COCO, on two scales."""
    net = _Darknet(
        "tiny_yolov3",
        "Redmon and Farhadi, YOLOv3: An Incremental Improvement, 2018, arXiv 1804.02767; Tiny YOLOv3 as in "
        "Darknet's yolov3-tiny.cfg (input 416, 3 anchors a scale, 80 classes: 255 output channels; the sixth "
        "pooling has stride 1 and pads below and at the right). Leaky ReLU is an 'activation'.",
        (3, _SIZE, _SIZE),
    )
    net.backbone((16, 32, 64, 128, 256, 512))
    net.block(7, 1024, 3)
    net.heads(8, fine="leaky5")
    return net.build()


def tiny_yolov4() -> Network:
    """Tiny YOLOv4 for the 80 classes of COCO, on two scales."""
    net = _Darknet(
        "tiny_yolov4",
        "Wang, Bochkovskiy and Liao, Scaled-YOLOv4: Scaling Cross Stage Partial Network, CVPR 2021; Tiny "
        "YOLOv4 as in Darknet's yolov4-tiny.cfg (input 416, 3 anchors a scale, 80 classes: 255 output "
        "channels). A route of the second half of the channels is a 'select', leaky ReLU an 'activation'.",
        (3, _SIZE, _SIZE),
    )
    net.block(1, 32, 3, stride=2)
    net.block(2, 64, 3, stride=2)
    for index, channels in ((3, 64), (7, 128), (11, 256)):
        fine = net.partial_stage(index, channels)
    net.block(15, 512, 3)
    net.heads(16, fine=fine)
    return net.build()


class _Darknet(Builder):
    """Builder of Darknet's blocks, numbered by their convolutions."""

    def block(self, index: int, channels: int, kernel: int, *, stride: int = 1) -> str:
        """Convolution that keeps the grid (or divides it by the stride), normalisation and leaky ReLU."""
        self.conv(f"conv{index}", channels, kernel, stride=stride, pads=kernel // 2)
        self.batchnorm(f"bn{index}")
        return self.add("activation", f"leaky{index}")

    def backbone(self, widths: tuple[int, ...]) -> None:
        """Six blocks, each with a pooling behind it: five that halve the grid and one that keeps it."""
        for index, channels in enumerate(widths, start=1):
            self.block(index, channels, 3)
            if index < 6:
                self.maxpool(f"pool{index}", 2, 2)
            else:
                self.maxpool(f"pool{index}", 2, 1, (0, 0, 1, 1))

    def partial_stage(self, index: int, channels: int) -> str:
        """Four convolutions, two of them on half of the channels; return what another scale reads."""
        whole = self.block(index, channels, 3)
        self.add("select", f"half{index}", channels=channels // 2)
        first = self.block(index + 1, channels // 2, 3)
        second = self.block(index + 2, channels // 2, 3)
        self.concat(f"concat{index + 2}", second, first)
        fine = self.block(index + 3, channels, 1)
        self.concat(f"concat{index + 3}", whole, fine)
        self.maxpool(f"pool{index + 3}", 2, 2)
        return fine

    def heads(self, index: int, *, fine: str) -> None:
        """Two outputs: on the last grid, and on twice that grid together with the node `fine`."""
        shared = self.block(index, 256, 1)
        self.block(index + 1, 512, 3)
        self.conv(f"conv{index + 2}", _COCO_CHANNELS, 1)
        self.last = shared
        self.block(index + 3, 128, 1)
        enlarged = self.add("upsample", f"upsample{index + 3}", scale=[2, 2])
        self.concat(f"concat{index + 3}", enlarged, fine)
        self.block(index + 4, 256, 3)
        self.conv(f"conv{index + 5}", _COCO_CHANNELS, 1)
