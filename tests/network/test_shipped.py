"""The shipped networks against totals of their reference implementations and against ONNX's own graphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import rramalloc
from rramalloc.importers import load
from rramalloc.network import counts
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Node, Pool, Stage
from rramalloc.network.shipped import shipped_names

ROOT = Path(__file__).resolve().parents[2]


class Known(NamedTuple):
    """A published parameter count and what it includes besides the weights.

    biased: pattern of the stages with a bias per output channel; per_norm: parameters per channel of a
    normalisation (scale and offset, in Darknet also mean and variance); others: parameters outside the graph.
    """

    total: int
    origin: str
    biased: str
    per_norm: int = 2
    others: int = 0


TORCHVISION = "torchvision weights metadata, num_params"
KERAS = "model.summary() of MLPerf Tiny's keras_model.py, all parameters"
PARAMETERS = {
    "alexnet": Known(61_100_840, TORCHVISION, ".*"),
    "alexnet_todaes": Known(62_378_344, "ungrouped AlexNet, input 227: the usual count", ".*"),
    "autoencoder": Known(269_992, KERAS, ".*", 4),
    "densenet121": Known(7_978_856, TORCHVISION, "fc6"),
    "ds_cnn": Known(24_908, KERAS, ".*", 4),
    "gpt2_small": Known(
        124_439_808, "OpenAI's 124M as in Hugging Face, head tied", "(?!head).*", others=1024 * 768
    ),  # positions
    "inception_v1": Known(6_998_552, "BVLC GoogLeNet without auxiliary classifiers", ".*"),
    "mobilenet_v1": Known(4_231_976, "Keras MobileNet, trainable parameters", "fc"),
    "mobilenet_v1_025": Known(221_794, KERAS, ".*", 4),
    "mobilenet_v2": Known(3_504_872, TORCHVISION, "fc"),
    "resnet8": Known(78_666, KERAS, ".*", 4),
    "resnet18": Known(11_689_512, TORCHVISION, "fc"),
    "resnet50": Known(25_557_032, TORCHVISION, "fc"),
    "resnet152": Known(60_192_808, TORCHVISION, "fc"),
    "squeezenet": Known(1_235_496, f"{TORCHVISION} of squeezenet1_1", ".*"),
    "tiny_yolov2": Known((63_471_556 - 16) // 4, "bytes of tiny-yolo-voc.weights, header 16", "conv9", 4),
    "tiny_yolov3": Known((35_434_956 - 20) // 4, "bytes of yolov3-tiny.weights, header 20", "conv1[03]", 4),
    "tiny_yolov4": Known(
        (24_251_276 - 20) // 4, "bytes of yolov4-tiny.weights, header 20", "conv18|conv21", 4
    ),
    "unet": Known(31_037_698, "milesial/Pytorch-UNet, UNet(3, 2)", r"up\d\.up|outc"),
    "vgg11": Known(132_863_336, TORCHVISION, ".*"),
    "vgg16": Known(138_357_544, TORCHVISION, ".*"),
    "vgg19": Known(143_667_240, TORCHVISION, ".*"),
    "vit_b16": Known(86_567_656, TORCHVISION, ".*", others=768 + 197 * 768),  # class token, positions
    "vit_b32": Known(88_224_232, TORCHVISION, ".*", others=768 + 50 * 768),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_of_the_reference_implementation(name: str) -> None:
    known, network = PARAMETERS[name], load(name)
    weights = sum(counts.weights(network, stage) for stage in network.stages)
    biases = sum(channels(network, node) for node in network.stages if re.fullmatch(known.biased, node.name))
    norms = sum(channels(network, node) for node in network.nodes if node.op in ("batchnorm", "layernorm"))
    assert weights + biases + known.per_norm * norms + known.others == known.total, known.origin


GIGA_OPS = {  # "_ops" in torchvision's weights metadata: billions of multiply-accumulates, three decimals
    "alexnet": 0.714,
    "densenet121": 2.834,
    "mobilenet_v2": 0.301,
    "resnet18": 1.814,
    "resnet50": 4.089,
    "resnet152": 11.514,
    "squeezenet": 0.349,
    "vgg11": 7.609,
    "vgg16": 15.470,
    "vgg19": 19.632,
}


@pytest.mark.parametrize("name", GIGA_OPS)
def test_macs_are_those_of_torchvision(name: str) -> None:
    assert round(macs(load(name)) / 1e9, 3) == GIGA_OPS[name]


WEIGHTS_BY_WINDOWS = {
    # 3 x 3 of 3 and of 16 channels; then 3 x 3 and 1 x 1 on grids of half the side, of twice the channels
    "resnet8": {
        32**2: 27 * 16 + 2 * 144 * 16,
        16**2: 144 * 32 + 288 * 32 + 16 * 32,
        8**2: 288 * 64 + 576 * 64 + 32 * 64,
        1: 64 * 10,
    },
    # 10 x 4 of one channel, four times 3 x 3 of each of 64 channels and 1 x 1
    "ds_cnn": {25 * 5: 40 * 64 + 4 * (9 * 64 + 64 * 64), 1: 64 * 12},
    # 3 x 3 of 3 channels; 3 x 3 of each and 1 x 1 of 8 16 32 32 64 64 128 (six times) 256 256 channels
    "mobilenet_v1_025": {
        48**2: 27 * 8 + 9 * 8 + 8 * 16,
        24**2: 9 * 16 + 16 * 32 + 9 * 32 + 32 * 32,
        12**2: 9 * 32 + 32 * 64 + 9 * 64 + 64 * 64,
        6**2: 9 * 64 + 64 * 128 + 5 * (9 * 128 + 128 * 128),
        3**2: 9 * 128 + 128 * 256 + 9 * 256 + 256 * 256,
        1: 256 * 2,
    },
    "autoencoder": {1: 2 * 640 * 128 + 6 * 128 * 128 + 2 * 128 * 8},
    # queries, keys, values, projection, and two layers of four times the width in each of 12 blocks; the head
    "gpt2_small": {1024: 12 * 12 * 768**2, 1: 768 * 50_257},
}
"""By hand, from the layer tables of their sources: weights of all layers with so many windows."""


@pytest.mark.parametrize("name", WEIGHTS_BY_WINDOWS)
def test_weights_and_macs_by_hand(name: str) -> None:
    network, by_hand = load(name), WEIGHTS_BY_WINDOWS[name]
    assert sum(counts.weights(network, stage) for stage in network.stages) == sum(by_hand.values())
    assert macs(network) == sum(windows * weights for windows, weights in by_hand.items())


def test_gpt2_small_does_what_public_figures_say() -> None:
    """291,648,307,200 operations with the head for every token: nanoGPT, transformer_sizing.ipynb."""
    network = load("gpt2_small")
    (head,) = (stage for stage in network.stages if stage.name == "head")
    inspected = rramalloc.inspect(network, crossbar="256x256")
    total = inspected.coverage.macs.total
    assert total is not None
    assert 2 * (total + 1023 * counts.macs(network, head)) == 291_648_307_200
    assert inspected.minimum == 12 * (3 * 9 + 3 * 3 + 3 * 12 + 12 * 3) == 1296
    assert rramalloc.inspect(network, crossbar="256x256", fc="crossbar").minimum == 1296 + 3 * 197


ONNX = ("densenet121", "inception_v1", "shufflenet", "squeezenet", "vgg19")
"""Networks whose convolutions and connections equal those of a light_*.onnx in the onnx package."""


@pytest.mark.parametrize("name", ONNX)
def test_convolutions_equal_the_onnx_graph(name: str) -> None:
    """Kernel, stride, pads, groups, weight and output shapes, and which convolutions feed each one."""
    network = load(name)
    feeds = feeding_convs({node.name: (node.inputs, isinstance(node, Conv)) for node in network.nodes})
    ours = [
        (
            list(node.kernel),
            list(node.stride),
            list(node.pads),
            node.groups,
            [node.out_channels, network.input_shape(node).channels // node.groups],
            list(network.shapes[node.name]),
            feeds[node.name],
        )
        for node in network.nodes
        if isinstance(node, Conv)
    ]
    assert ours == list(onnx_convs(name))


def test_every_network_is_checked() -> None:
    assert {*PARAMETERS, *ONNX} == set(shipped_names())


class Published(NamedTuple):
    """One column per fused conv and pool layer; no pooling is kernel and stride 1."""

    c_in: list[int]
    c_out: list[int]
    w_out: list[int]
    k: list[int]
    s: list[int]
    p: list[int]
    k_pool: list[int]
    s_pool: list[int]


PUBLISHED = {
    "alexnet_todaes": Published(
        [3, 96, 256, 384, 384],
        [96, 256, 384, 384, 256],
        [55, 27, 13, 13, 13],
        [11, 5, 3, 3, 3],
        [4, 1, 1, 1, 1],
        [0, 2, 1, 1, 1],
        [3, 3, 1, 1, 3],
        [2, 2, 1, 1, 2],
    ),
    "vgg11": Published(
        [3, 64, 128, 256, 256, 512, 512, 512],
        [64, 128, 256, 256, 512, 512, 512, 512],
        [224, 112, 56, 56, 28, 28, 14, 14],
        [3] * 8,
        [1] * 8,
        [1] * 8,
        [2, 2, 1, 2, 1, 2, 1, 2],
        [2, 2, 1, 2, 1, 2, 1, 2],
    ),
    "vgg19": Published(
        [3, 64, 64, 128, 128, *[256] * 4, *[512] * 7],
        [64, 64, 128, 128, *[256] * 4, *[512] * 8],
        [224, 224, 112, 112, *[56] * 4, *[28] * 4, *[14] * 4],
        [3] * 16,
        [1] * 16,
        [1] * 16,
        [1, 2, 1, 2, *[1, 1, 1, 2] * 3],
        [1, 2, 1, 2, *[1, 1, 1, 2] * 3],
    ),
}
"""Layer tables of the published allocation method, ACM TODAES 29(1):21 (docs/sources/model.md 9)."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_chain_equals_the_published_layer_table(name: str) -> None:
    network = load(name)
    rows: list[list[int]] = []
    for node in network.nodes:
        if isinstance(node, Conv):
            assert node.pads == (node.pads[0],) * 4
            shape = network.shapes[node.name]
            c_in = network.input_shape(node).channels
            rows.append(
                [c_in, node.out_channels, shape.width, node.kernel[0], node.stride[0], node.pads[0], 1, 1]
            )
        elif isinstance(node, Pool):
            assert node.pads == (0, 0, 0, 0)
            rows[-1][6:] = [node.kernel[0], node.stride[0]]
    assert Published(*(list(column) for column in zip(*rows, strict=True))) == PUBLISHED[name]


@pytest.mark.parametrize(
    ("fields", "weights", "windows"),
    [
        ({"kernel": [3, 5], "groups": 1}, 3 * 5 * 8 * 16, 8 * 6),
        ({"kernel": 3, "groups": 4}, 9 * 2 * 16, 8 * 8),
        ({"kernel": 3, "stride": 2, "pads": 1}, 9 * 8 * 16, 5 * 5),
    ],
)
def test_counts_of_a_convolution(fields: dict[str, Any], weights: int, windows: int) -> None:
    network = Network.build(
        "tiny",
        [
            {"name": "input", "op": "input", "shape": [8, 10, 10]},
            {"name": "conv", "op": "conv", "inputs": ["input"], "out_channels": 16, **fields},
        ],
    )
    stage = network.stages[0]
    assert counts.weights(network, stage) == weights
    assert counts.windows(network, stage) == windows
    assert counts.macs(network, stage) == weights * windows


def channels(network: Network, node: Node | Stage) -> int:
    return network.shapes[node.name].channels


def macs(network: Network) -> int:
    return sum(counts.macs(network, stage) for stage in network.stages)


def feeding_convs(graph: dict[str, tuple[tuple[str, ...], bool]]) -> dict[str, set[int]]:
    """Numbers of the convolutions from which each node's inputs come without another one between.

    graph: inputs of every node and whether it is a convolution, producers first.
    """
    feeds: dict[str, set[int]] = {}
    passes_on: dict[str, set[int]] = {}
    number = 0
    for name, (inputs, is_conv) in graph.items():
        feeds[name] = set().union(*(passes_on.get(producer, set()) for producer in inputs))
        passes_on[name] = {number} if is_conv else feeds[name]
        number += is_conv
    return feeds


def onnx_convs(name: str) -> Iterator[tuple[object, ...]]:
    """The convolutions of a graph in the onnx package, in file order, with shapes inferred by onnx."""
    import onnx

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    graph = onnx.shape_inference.infer_shapes(onnx.load(folder / f"light_{name}.onnx")).graph
    tensors = [*graph.input, *graph.value_info, *graph.output]
    shapes = {item.name: [axis.dim_value for axis in item.type.tensor_type.shape.dim] for item in tensors}
    feeds = feeding_convs(
        {node.output[0]: (tuple(node.input), node.op_type == "Conv") for node in graph.node}
    )
    for node in graph.node:
        if node.op_type != "Conv":
            continue
        fields = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        yield (
            fields["kernel_shape"],
            fields["strides"],
            fields["pads"],
            fields.get("group", 1),
            shapes[node.input[1]][:2],
            shapes[node.output[0]][1:],
            feeds[node.output[0]],
        )
