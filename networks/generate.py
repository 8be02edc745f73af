"""Write every shipped network as JSON: `python networks/generate.py [FOLDER]` (default: this folder)."""

from __future__ import annotations

import sys
from pathlib import Path

from definitions import (
    alexnet,
    densenet,
    inception,
    mobilenet,
    resnet,
    shufflenet,
    squeezenet,
    tiny,
    transformer,
    unet,
    vgg,
    yolo,
)

from rramalloc.files import write_json

NETWORKS = (
    alexnet.alexnet,
    alexnet.alexnet_todaes,
    densenet.densenet121,
    inception.inception_v1,
    mobilenet.mobilenet_v1,
    mobilenet.mobilenet_v1_025,
    mobilenet.mobilenet_v2,
    resnet.resnet18,
    resnet.resnet50,
    resnet.resnet152,
    shufflenet.shufflenet,
    squeezenet.squeezenet,
    tiny.autoencoder,
    tiny.ds_cnn,
    tiny.resnet8,
    transformer.gpt2_small,
    transformer.vit_b16,
    transformer.vit_b32,
    unet.unet,
    vgg.vgg11,
    vgg.vgg16,
    vgg.vgg19,
    yolo.tiny_yolov2,
    yolo.tiny_yolov3,
    yolo.tiny_yolov4,
)


def main(folder: Path) -> None:
    """One file per network, named after it."""
    for define in NETWORKS:
        network = define()
        write_json(folder / f"{network.name}.json", network.to_dict())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent)
