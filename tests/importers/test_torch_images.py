"""Networks of images as PyTorch writes them: video, shifted windows, spiking layers, open frames."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
from torch import nn  # noqa: E402

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


@pytest.mark.parametrize("is_mixed", [True, False])
def test_an_open_first_axis_is_a_batch_or_as_long_as_in_the_example(is_mixed: bool) -> None:
    frames = torch.export.Dim("frames", min=2, max=64)
    example = torch.zeros(5, 3, 10, 10)
    module = Mean(is_mixed=is_mixed).eval()
    program = torch.export.export(module, (example,), dynamic_shapes=({0: frames},))
    network = from_torch(program)
    assert covered(network) == (216, (5 if is_mixed else 1) * 64 * 216)
    assert network.warnings == ()
