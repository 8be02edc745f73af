"""Networks of images as PyTorch writes them: video, shifted windows, spiking layers, open frames."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
from torch import nn  # noqa: E402

from rramalloc import inspect  # noqa: E402
from rramalloc.importers import load  # noqa: E402
from rramalloc.importers.torch import from_torch  # noqa: E402
from rramalloc.network.coverage import Coverage  # noqa: E402
from rramalloc.network.network import Network  # noqa: E402


class Video(nn.Module):
    """Frames through two convolutions, then a recurrence in both directions over them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1)
        self.over_time, self.head = nn.LSTM(16, 12, batch_first=True, bidirectional=True), nn.Linear(24, 5)

    def forward(self, x: Any) -> Any:
        frames = x.reshape(-1, *x.shape[2:])
        features = self.second(self.first(frames).relu()).mean((2, 3)).reshape(*x.shape[:2], -1)
        return self.head(self.over_time(features)[0].mean(1))


class ShiftedWindows(nn.Module):
    """Attention within windows of 4 x 4 that are shifted by 2, as in Swin, then patches merged."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.qkv, self.out = nn.Conv2d(3, 16, 4, 4), nn.Linear(16, 48), nn.Linear(16, 16)
        self.merge = nn.Linear(64, 32, bias=False)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).permute(0, 2, 3, 1)
        y = torch.roll(x, (-2, -2), (1, 2)).view(1, 2, 4, 2, 4, 16).permute(0, 1, 3, 2, 4, 5)
        q, k, v = self.qkv(y.reshape(-1, 16, 16)).reshape(-1, 16, 3, 2, 8).permute(2, 0, 3, 1, 4)
        y = ((q @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).reshape(-1, 16, 16)
        y = self.out(y).view(1, 2, 2, 4, 4, 16).permute(0, 1, 3, 2, 4, 5).reshape(1, 8, 8, 16)
        x = x + torch.roll(y, (2, 2), (1, 2))
        corners = [x[:, a::2, b::2] for b in range(2) for a in range(2)]
        return self.merge(torch.cat(corners, -1))


class Spiking(nn.Module):
    """Time steps folded into the batch, and neurons that leak from one to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = (
            nn.Conv2d(2, 8, 3, 1, 1),
            nn.Conv2d(8, 8, 3, 2, 1),
            nn.Linear(128, 10),
        )

    def fired(self, x: Any) -> Any:
        state, spikes = torch.zeros_like(x[0]), []
        for step in x:
            state = 0.5 * state + step
            spikes.append((state > 1.0).to(x.dtype))
            state = state - spikes[-1]
        return torch.stack(spikes)

    def forward(self, x: Any) -> Any:
        y = self.fired(self.first(x.flatten(0, 1)).unflatten(0, x.shape[:2]))
        y = self.fired(self.second(y.flatten(0, 1)).unflatten(0, x.shape[:2]))
        return self.head(y.flatten(2)).mean(0)


@torch.library.custom_op("detector::roi_align", mutates_args=())  # type: ignore[untyped-decorator]
def roi_align(features: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Regions of 7 x 7; what they hold does not matter to an export."""
    return features.new_zeros(len(boxes), features.shape[1], 7, 7)


@roi_align.register_fake  # type: ignore[untyped-decorator]
def _(features: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    return features.new_empty(boxes.shape[0], features.shape[1], 7, 7)


class TwoStage(nn.Module):
    """A detector: features, a score and a box for each of their pixels, and a head on the 12 best regions."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1))
        self.near, self.score, self.box = nn.Conv2d(16, 16, 3, 1, 1), nn.Conv2d(16, 1, 1), nn.Conv2d(16, 4, 1)
        self.within, self.wide = nn.Conv2d(16, 8, 3, 1, 1), nn.Linear(8 * 49, 32)
        self.kind, self.shift = nn.Linear(32, 5), nn.Linear(32, 20)

    def forward(self, x: Any) -> Any:
        features = self.backbone(x).relu()
        near = self.near(features).relu()
        scores, boxes = self.score(near).flatten(), self.box(near).permute(0, 2, 3, 1).reshape(-1, 4)
        best = torch.topk(scores, 12).indices
        regions = self.within(torch.ops.detector.roi_align(features, boxes[best])).relu()
        found = self.wide(regions.flatten(1)).relu()
        return self.kind(found), self.shift(found)


def exported(detector: nn.Module, shape: tuple[int, ...]) -> Any:
    """Return the ONNX of a detector, in which its regions are RoiAlign's."""
    from onnxscript import opset18 as op

    def aligned(features: Any, boxes: Any) -> Any:
        first = op.Constant(value_ints=[0] * 12)
        return op.RoiAlign(features, boxes, first, output_height=7, output_width=7, spatial_scale=0.25)

    table = {torch.ops.detector.roi_align.default: aligned}
    made = torch.onnx.export(
        detector.eval(), (torch.zeros(shape),), dynamo=True, opset_version=18, custom_translation_table=table
    )
    return made.model_proto


class Mean(nn.Module):
    """A mean over frames, or none."""

    def __init__(self, *, is_mixed: bool) -> None:
        super().__init__()
        self.conv, self.is_mixed = nn.Conv2d(3, 8, 3), is_mixed

    def forward(self, x: Any) -> Any:
        y = self.conv(x)
        return y.mean(0) if self.is_mixed else y.relu()


def covered(network: Network) -> tuple[int, int | None]:
    found = Coverage.of(network, [stage.name for stage in network.stages])
    assert found.weights.on_arrays == found.weights.total
    return found.weights.total, found.macs.total


LSTM = 2 * (4 * 12 * 16 + 4 * 12 * 12)
NETWORKS = {  # a module, its input; weights and products by hand, those of computed tensors apart
    "video": (
        Video(),
        (1, 6, 3, 32, 32),
        216 + 1152 + LSTM + 120,
        6 * (256 * 216 + 64 * 1152 + LSTM) + 120,
    ),
    "windows": (
        ShiftedWindows(),
        (1, 3, 32, 32),
        768 + 768 + 256 + 2048,
        64 * (768 + 768 + 256) + 16 * 2048 + 2 * 4 * 2 * 16 * 16 * 8,
    ),
    "spikes": (Spiking(), (4, 1, 2, 8, 8), 144 + 576 + 1280, 4 * (64 * 144 + 16 * 576 + 1280)),
    "frames": (Mean(is_mixed=True), (5, 3, 10, 10), 216, 5 * 64 * 216),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_images(name: str) -> None:
    module, shape, weights, macs = NETWORKS[name]
    assert covered(from_torch(module, shape)) == (weights, macs)


def test_a_two_stage_detector() -> None:
    """64 x 64 pixels: 32 x 32 windows of the first layer, 16 x 16 of what follows, 12 regions of 7 x 7."""
    network = load(exported(TwoStage(), (1, 3, 64, 64)))
    backbone, proposals, head = (216, 1152), 2304 + 16 + 64, 392 * 32 + 32 * 5 + 32 * 20
    weights = sum(backbone) + proposals + 1152 + head
    macs = 1024 * 216 + 256 * (1152 + proposals) + 12 * (49 * 1152 + head)
    assert covered(network) == (weights, macs)
    windows = sorted(layer.windows for layer in inspect(network).layers)
    assert windows == [12, 12, 12, 256, 256, 256, 256, 12 * 49, 1024]


@pytest.mark.parametrize("is_mixed", [True, False])
def test_an_open_first_axis_is_a_batch_or_as_long_as_in_the_example(is_mixed: bool) -> None:
    frames = torch.export.Dim("frames", min=2, max=64)
    example = torch.zeros(5, 3, 10, 10)
    module = Mean(is_mixed=is_mixed).eval()
    program = torch.export.export(module, (example,), dynamic_shapes=({0: frames},))
    network = from_torch(program)
    assert covered(network) == (216, (5 if is_mixed else 1) * 64 * 216)
    assert network.warnings == ()
