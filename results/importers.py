"""Models read from ONNX and from PyTorch: both must agree with each other and with PyTorch's own counters.

Writes results/importers.md:  python results/importers.py [MODEL ...]
Needs torch, torchvision, timm and transformers; models have random weights.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pages import RESULTS
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from rramalloc.errors import RramallocError
from rramalloc.importers import load
from rramalloc.importers.torch import from_torch
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.coverage import Coverage
from rramalloc.network.network import Network
from rramalloc.timing.simulate import simulate
from rramalloc.timing.stage_graph import StageGraph

PAGE = RESULTS / "importers.md"
PRODUCTS_WITH_WEIGHTS = ("convolution", "addmm", "mm")
"""Operators of PyTorch's counter whose second operand is a parameter in all of these models."""

Made = Callable[[], nn.Module]


@dataclass(frozen=True)
class Model:
    """make: the module; shape: of its input with batch; blocks: transformer blocks in it."""

    make: Made
    shape: tuple[int, ...]
    blocks: int = 0
    tokens: int = 0


class Picked(nn.Module):
    """A module and what to take of its output."""

    def __init__(self, inner: nn.Module, pick: Callable[[Any], Any]) -> None:
        super().__init__()
        self.inner, self.pick = inner, pick

    def forward(self, x: Any) -> Any:
        return self.pick(self.inner(x))


def dcgan() -> nn.Module:
    """Generator: transposed convolutions from 1 x 1 to 64 x 64 pixels."""
    layers: list[nn.Module] = [nn.ConvTranspose2d(100, 256, 4), nn.BatchNorm2d(256), nn.ReLU()]
    for inputs, outputs in ((256, 128), (128, 64), (64, 32), (32, 3)):
        layers += [nn.ConvTranspose2d(inputs, outputs, 4, 2, 1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Two levels, joined by concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.inc, self.down = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, 2, 1)
        self.up, self.out = nn.ConvTranspose2d(32, 16, 2, 2), nn.Conv2d(32, 2, 1)

    def forward(self, x: Any) -> Any:
        first = torch.relu(self.inc(x))
        return self.out(torch.cat([first, self.up(torch.relu(self.down(first)))], 1))


class SuperResolution(nn.Module):
    """ESPCN: convolutions, then channels become pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 32, 5, padding=2), nn.Tanh(), nn.Conv2d(32, 32, 3, padding=1), nn.Tanh(),
            nn.Conv2d(32, 3 * 9, 3, padding=1), nn.PixelShuffle(3), nn.Conv2d(3, 3, 3, padding=1),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return self.body(x)


class WaveNet(nn.Module):
    """1-D convolutions with growing dilation and gates."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 16, 1)
        self.layers = nn.ModuleList(nn.Conv1d(16, 32, 2, dilation=2**n) for n in range(6))
        self.last = nn.Conv1d(16, 10, 1)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for layer in self.layers:
            one, other = layer(nn.functional.pad(x, (layer.dilation[0], 0))).chunk(2, 1)
            x = x + torch.tanh(one) * torch.sigmoid(other)
        return self.last(x)


class Siamese(nn.Module):
    """One trunk for both halves of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1))
        self.head = nn.Linear(64, 1)

    def forward(self, x: Any) -> Any:
        one, other = (self.trunk(part).mean((2, 3)) for part in x.chunk(2, 1))
        return self.head(torch.cat([one, other], 1))


class Focus(nn.Module):
    """YOLOv5's first layer: strided slices, joined as channels; then a path aggregation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(12, 16, 3, padding=1), nn.Conv2d(16, 32, 3, 2, 1)
        self.third = nn.Conv2d(48, 16, 1)

    def forward(self, x: Any) -> Any:
        x = torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1)
        x = nn.functional.silu(self.first(x))
        small = nn.functional.silu(self.second(x))
        return self.third(torch.cat([nn.functional.interpolate(small, scale_factor=2), x], 1))


def vision_models() -> Any:
    """The models of torchvision, which need its operators to be declared where they are not compiled."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):  # it is there
            library.define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    from torchvision import models

    _DECLARED.append(library)
    return models


_DECLARED: list[Any] = []
"""Declarations end with the object that holds them."""


def torchvision(name: str, **fields: Any) -> Made:
    """A classifier of torchvision."""
    return lambda: getattr(vision_models(), name)(**fields)


def segmenter(name: str, **fields: Any) -> Made:
    """A segmentation network of torchvision, with the output that counts."""

    def make() -> nn.Module:
        network = getattr(vision_models().segmentation, name)(weights_backbone=None, **fields)
        return Picked(network, lambda made: made["out"])

    return make


def timm(name: str, **fields: Any) -> Made:
    """A model of timm."""

    def make() -> nn.Module:
        vision_models()
        import timm as library

        return library.create_model(name, pretrained=False, **fields)

    return make


def bert() -> nn.Module:
    """Encoder of two layers on 32 tokens, from Hugging Face."""
    vision_models()
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        attn_implementation="eager",
    )  # fmt: skip
    return Picked(BertModel(config, add_pooling_layer=False), lambda made: made.last_hidden_state)


IMAGE = (1, 3, 224, 224)
SMALL = (1, 3, 64, 64)
MODELS: dict[str, Model] = {
    "alexnet": Model(torchvision("alexnet"), IMAGE),
    "squeezenet1_1": Model(torchvision("squeezenet1_1"), IMAGE),
    "resnet18": Model(torchvision("resnet18"), IMAGE),
    "resnext50_32x4d": Model(torchvision("resnext50_32x4d"), IMAGE),
    "regnet_y_400mf": Model(torchvision("regnet_y_400mf"), IMAGE),
    "densenet121": Model(torchvision("densenet121"), IMAGE),
    "googlenet": Model(torchvision("googlenet", aux_logits=False, init_weights=False), IMAGE),
    "inception_v3": Model(
        torchvision("inception_v3", aux_logits=False, init_weights=False), (1, 3, 299, 299)
    ),
    "mobilenet_v2": Model(torchvision("mobilenet_v2"), IMAGE),
    "mobilenet_v3_small": Model(torchvision("mobilenet_v3_small"), IMAGE),
    "shufflenet_v2_x0_5": Model(torchvision("shufflenet_v2_x0_5"), IMAGE),
    "mnasnet0_5": Model(torchvision("mnasnet0_5"), IMAGE),
    "efficientnet_b0": Model(torchvision("efficientnet_b0"), IMAGE),
    "convnext_tiny": Model(torchvision("convnext_tiny"), IMAGE),
    "vit": Model(
        torchvision(
            "VisionTransformer",
            image_size=224,
            patch_size=16,
            num_layers=4,
            num_heads=3,
            hidden_dim=192,
            mlp_dim=768,
        ),
        IMAGE,
        blocks=4,
    ),
    "swin_t": Model(torchvision("swin_t"), IMAGE, blocks=12),
    "swin_v2_t": Model(torchvision("swin_v2_t"), IMAGE, blocks=12),
    "deeplabv3_mobilenet": Model(segmenter("deeplabv3_mobilenet_v3_large"), IMAGE),
    "lraspp_mobilenet": Model(segmenter("lraspp_mobilenet_v3_large"), IMAGE),
    "mixer_s32": Model(timm("mixer_s32_224"), IMAGE, blocks=8),
    "poolformer_s12": Model(timm("poolformer_s12"), IMAGE),
    "ghostnet_050": Model(timm("ghostnet_050"), IMAGE),
    "hrnet_w18_small": Model(timm("hrnet_w18_small"), IMAGE),
    "dcgan": Model(dcgan, (1, 100, 1, 1)),
    "unet": Model(UNet, SMALL),
    "espcn": Model(SuperResolution, SMALL),
    "wavenet": Model(WaveNet, (1, 1, 256)),
    "siamese": Model(Siamese, (1, 6, 64, 64)),
    "focus": Model(Focus, SMALL),
    "bert": Model(bert, (1, 32), blocks=2, tokens=100),
}


@dataclass(frozen=True)
class Read:
    """What became of a model; beforehand: weights and MACs of layers on constants; error: of a refusal."""

    stages: int = 0
    weights: int = 0
    macs: int = 0
    beforehand: tuple[int, int] = (0, 0)
    barriers: int = 0
    steps: int = 0
    error: str = ""

    @classmethod
    def of(cls, read: Callable[[], Network]) -> Read:
        """Figures of a network, or the error of reading it."""
        try:
            network = read()
        except RramallocError as error:
            return cls(error=str(error))
        graph = StageGraph.build(network, MappingOptions(fc="crossbar"))
        coverage = Coverage.of(network, graph.names)
        return cls(
            stages=len(graph.names),
            weights=coverage.weights.on_arrays,
            macs=coverage.macs.on_arrays,
            beforehand=(
                sum(item.weights for item in coverage.precomputed),
                sum(item.macs or 0 for item in coverage.precomputed),
            ),
            barriers=len(coverage.barriers),
            steps=simulate(graph, np.ones(len(graph.names), dtype=np.int64)).makespan,
        )


def expected(module: nn.Module, image: Any) -> tuple[int, int]:
    """Weights and multiply-accumulates by PyTorch: of layers with matrices, biases and tables left out."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(image)
    flops = counter.get_flop_counts()["Global"]
    macs = sum(count for op, count in flops.items() if str(op).split(".")[1] in PRODUCTS_WITH_WEIGHTS) // 2
    layers = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d)
    kept = {}
    for inner in module.modules():
        if isinstance(inner, layers):
            kept[id(inner.weight)] = inner.weight.numel()
        if isinstance(inner, nn.MultiheadAttention) and inner.in_proj_weight is not None:
            kept[id(inner.in_proj_weight)] = inner.in_proj_weight.numel()
    return sum(kept.values()), macs


def measured(model: Model, folder: Path) -> tuple[tuple[int, int], Read, Read]:
    """PyTorch's own counts, and what both importers read."""
    torch.manual_seed(0)
    module = model.make().eval()
    image = torch.randint(model.tokens, model.shape) if model.tokens else torch.zeros(model.shape)
    program = torch.export.export(module, (image,))
    path = folder / "model.onnx"
    torch.onnx.export(module, (image,), str(path), dynamo=True, external_data=False, verbose=False)
    return expected(module, image), Read.of(lambda: load(path)), Read.of(lambda: from_torch(program))


HEADER = """# Models read from ONNX and from PyTorch

Each model is exported by PyTorch (`torch.onnx.export` and `torch.export`), read from both files, and
compared with PyTorch's own counters: weights and multiply-accumulates of all layers with matrices, without
biases and tables. Steps: one copy of every stage, fully connected layers on the arrays. Barriers: nodes that
wait for all pixels of an input whose pixels come one by one. Transformer blocks are those of the model.
Weights are random.

Made by `python results/importers.py`, with torch, torchvision, timm and transformers.

| model | stages | weights | MACs | equal to the counters | barriers | | steps | |
|---|---|---|---|---|---|---|---|---|
| | | | | | ONNX | PyTorch | ONNX | PyTorch |
"""


ENDING = """
{agree} of {count} models have the weights and MACs of PyTorch's counters from both sides, {equal} of {count}
the same steps from both, and {barriers} of {count} the same barriers. No transformer block has a barrier.

- swin_v2_t: PyTorch's counters hold {weights:,} weights and {macs:,} MACs more, of the small layers that
  compute the table of relative positions from constants. They are computed once beforehand and take no
  arrays, as `inspect` says. PyTorch's ONNX exporter has computed a part of them itself.
- poolformer_s12: its 24 normalisations are over the whole grid, each is one barrier.
- mixer_s32: two barriers in each of its 8 blocks. Its layers over tokens read a channel of all tokens at
  once, and the layers behind them read a token of all channels: both have to wait.
"""


def agrees(counts: tuple[int, int], onnx: Read, torch_: Read) -> bool:
    """Whether all weights and MACs of the counters are on arrays or computed beforehand, from both sides."""
    weights, macs = torch_.beforehand
    same = (onnx.weights, onnx.macs, onnx.stages) == (torch_.weights, torch_.macs, torch_.stages)
    return same and (torch_.weights + weights, torch_.macs + macs) == counts


def row(name: str, model: Model, counts: tuple[int, int], onnx: Read, torch_: Read) -> str:
    """A line of the table."""
    for read in (onnx, torch_):
        if read.error:
            return f"| {name} | refused: {read.error} | | | | | | | |\n"
    blocks = f" ({model.blocks} blocks)" if model.blocks else ""
    return (
        f"| {name}{blocks} | {onnx.stages} | {onnx.weights:,} | {onnx.macs:,} | "
        f"{'yes' if agrees(counts, onnx, torch_) else '**no**'} | "
        f"{onnx.barriers} | {torch_.barriers} | {onnx.steps:,} | {torch_.steps:,} |\n"
    )


def main() -> None:
    """Measure the models named, or all, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    names = parser.parse_args().models
    warnings.filterwarnings("ignore")
    rows = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            counts, *reads = measured(MODELS[name], Path(folder))
        rows.append((reads[0], reads[1], row(name, MODELS[name], counts, *reads)))
        print(rows[-1][2], end="", flush=True)
    if names != list(MODELS):
        return
    pairs = [(one, other) for one, other, _ in rows if not one.error]
    ending = ENDING.format(
        agree=sum("| yes |" in line for *_, line in rows),
        equal=sum(one.steps == other.steps for one, other in pairs),
        barriers=sum(one.barriers == other.barriers for one, other in pairs),
        weights=sum(other.beforehand[0] for _, other in pairs),
        macs=sum(other.beforehand[1] for _, other in pairs),
        count=len(rows),
    )
    PAGE.write_text(HEADER + "".join(line for *_, line in rows) + ending, encoding="utf-8")


if __name__ == "__main__":
    main()
