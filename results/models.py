"""Models of torchvision, timm, transformers and of our own, with random weights, for importers.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

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


class FramesMean(nn.Module):
    """A trunk over every frame of a video, and the mean over frames, as in temporal segment networks."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = torchvision("resnet18", num_classes=16)()

    def forward(self, x: Any) -> Any:
        return self.trunk(x.flatten(0, 1)).unflatten(0, x.shape[:2]).mean(1)


class Spiking(nn.Module):
    """Four time steps in the batch of two convolutions, whose neurons leak from one step to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 8, 3, 1, 1), nn.Conv2d(8, 16, 3, 2, 1)
        self.head = nn.Linear(16 * 8 * 8, 10)

    def leaked(self, x: Any) -> Any:
        level, spikes = torch.zeros_like(x[0]), []
        for step in range(4):
            level = 0.5 * level + x[step]
            spikes.append((level > 1).to(x.dtype))
            level = level * (1 - spikes[-1])
        return torch.stack(spikes)

    def forward(self, x: Any) -> Any:
        x = self.leaked(self.first(x).unflatten(0, (4, 1))).flatten(0, 1)
        x = self.leaked(self.second(x).unflatten(0, (4, 1))).flatten(0, 1)
        return self.head(x.flatten(1)).mean(0)


def vision_models() -> Any:
    """The models of torchvision. Where it is compiled for another PyTorch, declared operators are enough."""
    try:
        from torchvision import models
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
        _DECLARED.append(library)
        from torchvision import models
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


def transformers(name: str, **fields: Any) -> Made:
    """A small video transformer of Hugging Face: 8 frames of 64 x 64 pixels."""

    def make() -> nn.Module:
        vision_models()
        import transformers as library

        config = getattr(library, f"{name}Config")(
            hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64,
            num_frames=8, attn_implementation="eager", **fields,
        )  # fmt: skip
        pooler: dict[str, Any] = {"add_pooling_layer": False} if name == "Vivit" else {}
        return Picked(getattr(library, f"{name}Model")(config, **pooler), lambda made: made.last_hidden_state)

    return make


IMAGE = (1, 3, 224, 224)
VIDEO = (1, 8, 3, 64, 64)
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
    "frames_mean": Model(FramesMean, VIDEO),
    "spiking": Model(Spiking, (4, 2, 16, 16)),
    "videomae": Model(transformers("VideoMAE", patch_size=16, tubelet_size=2), VIDEO, blocks=2),
    "timesformer": Model(transformers("Timesformer", patch_size=16), VIDEO, blocks=2),
    "vivit": Model(transformers("Vivit", tubelet_size=[2, 16, 16]), VIDEO, blocks=2),
    "bert": Model(bert, (1, 32), blocks=2, tokens=100),
}


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


def exported(name: str, path: Path) -> tuple[tuple[int, int], Any]:
    """Write a model as ONNX; return PyTorch's own counts, and the exported program."""
    torch.manual_seed(0)
    model = MODELS[name]
    module = model.make().eval()
    image = torch.randint(model.tokens, model.shape) if model.tokens else torch.zeros(model.shape)
    program = torch.export.export(module, (image,))
    torch.onnx.export(module, (image,), str(path), dynamo=True, external_data=False, verbose=False)
    return expected(module, image), program
