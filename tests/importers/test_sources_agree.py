"""The same module from PyTorch's ONNX exporter and from torch.export: the same layers, waits and steps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

from rramalloc.importers import load  # noqa: E402
from rramalloc.importers.torch import from_torch  # noqa: E402
from rramalloc.mapping.options import MappingOptions  # noqa: E402
from rramalloc.network.coverage import Coverage  # noqa: E402
from rramalloc.network.network import Network  # noqa: E402
from rramalloc.timing.simulate import simulate  # noqa: E402
from rramalloc.timing.stage_graph import StageGraph  # noqa: E402

Function = Callable[..., Any]


class Between(nn.Module):
    """A function between two layers."""

    def __init__(self, first: nn.Module, function: Function, last: nn.Module) -> None:
        super().__init__()
        self.first, self.function, self.last = first, function, last

    def forward(self, x: Any) -> Any:
        return self.last(self.function(self.first(x)))


def on_image(function: Function) -> tuple[nn.Module, tuple[int, ...]]:
    channels = function(torch.zeros(1, 8, 12, 8)).shape[1]
    first, last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(channels, 4, 3, padding=1)
    return Between(first, function, last), (1, 3, 12, 8)


def on_tokens(function: Function) -> tuple[nn.Module, tuple[int, ...]]:
    features = function(torch.zeros(1, 12, 8)).shape[-1]
    return Between(nn.Linear(5, 8), function, nn.Linear(features, 4)), (1, 12, 5)


def on_signal(function: Function) -> tuple[nn.Module, tuple[int, ...]]:
    return Between(nn.Conv1d(3, 8, 3, padding=1), function, nn.Conv1d(8, 4, 3)), (1, 3, 24)


def windows(x: Any) -> Any:
    """Cut into windows of 4 x 4 pixels and back."""
    x = x.reshape(1, 8, 3, 4, 2, 4).permute(0, 2, 4, 3, 5, 1).reshape(6, 16, 8)
    return x.reshape(1, 3, 2, 4, 4, 8).permute(0, 5, 1, 3, 2, 4).reshape(1, 8, 12, 8)


def heads(x: Any) -> Any:
    x = x.view(1, 12, 2, 4).transpose(1, 2)
    return F.scaled_dot_product_attention(x, x, x).transpose(1, 2).reshape(1, 12, 8)


MIXING = torch.rand(12, 12)
WEIGHTS = torch.rand(8, 6)
PARITIES = ((0, 0), (1, 0), (0, 1), (1, 1))
EXACT: dict[str, Function] = {
    "strided slice": lambda: on_image(lambda x: x[:, :, 1::2, ::2]),
    "list of rows": lambda: on_image(lambda x: x[:, :, [3, 1, 0, 2]]),
    "selected columns": lambda: on_image(lambda x: x.index_select(3, torch.tensor([0, 2, 4]))),
    "range of rows": lambda: on_image(lambda x: x[:, :, torch.arange(0, 12, 3)]),
    "roll": lambda: on_image(lambda x: x.roll((2, -3), (2, 3))),
    "flip": lambda: on_image(lambda x: x.flip(2)),
    "windows": lambda: on_image(windows),
    "pixel shuffle": lambda: on_image(lambda x: F.pixel_shuffle(x, 2)),
    "space to depth": lambda: on_image(lambda x: F.pixel_unshuffle(x, 2)),
    "patches merged": lambda: on_image(lambda x: torch.cat([x[:, :, i::2, j::2] for i, j in PARITIES], 1)),
    "einsum of a constant": lambda: on_image(lambda x: torch.einsum("bchw,cd->bdhw", x, WEIGHTS)),
    "padding by reflection": lambda: on_image(lambda x: F.pad(x, (1, 2, 1, 1), mode="reflect")),
    "padding and cropping": lambda: on_image(lambda x: F.pad(x, (1, 2, -1, 1))),
    "rows repeated": lambda: on_image(lambda x: x.repeat_interleave(2, 2)),
    "gate": lambda: on_image(lambda x: F.glu(x, 1)),
    "mean of rows": lambda: on_image(lambda x: x + x.mean(3, keepdim=True)),
    "class token": lambda: on_tokens(lambda x: torch.cat([torch.zeros(1, 1, 8), x], 1)),
    "first token": lambda: on_tokens(lambda x: x[:, 0]),
    "attention": lambda: on_tokens(heads),
    "neighbours joined": lambda: on_tokens(lambda x: torch.cat([x[:, 0::2], x[:, 1::2]], -1)),
    "causal signal": lambda: on_signal(lambda x: F.pad(x, (2, 0))),
    "signal of every third": lambda: on_signal(lambda x: x[..., ::3]),
    "transposed in groups": lambda: (
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.ConvTranspose2d(8, 12, 4, 2, 1, groups=4)),
        (1, 3, 10, 8),
    ),
    "transposed and dilated": lambda: (
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.ConvTranspose2d(8, 6, 3, 2, 2, 1, dilation=2)),
        (1, 3, 10, 8),
    ),
    "transposed signal": lambda: (
        nn.Sequential(nn.Conv1d(3, 8, 3), nn.ConvTranspose1d(8, 6, 4, 2, 1)),
        (1, 3, 20),
    ),
    "grouped signal": lambda: (
        nn.Sequential(nn.Conv1d(4, 8, 3, 2, 1, groups=2), nn.MaxPool1d(2), nn.Conv1d(8, 4, 3, dilation=2)),
        (1, 4, 32),
    ),
}
WAITING: dict[str, tuple[Function, int]] = {
    "group norm": (lambda: on_image(lambda x: F.group_norm(x, 4)), 1),
    "softmax over rows": (lambda: on_image(lambda x: x.softmax(2)), 1),
    "tokens mixed": (lambda: on_tokens(lambda x: torch.einsum("bti,ts->bsi", x, MIXING)), 2),
}


def figures(network: Network) -> dict[str, Any]:
    graph = StageGraph.build(network, MappingOptions(fc="crossbar"))
    coverage = Coverage.of(network, graph.names)
    return {
        "stages": len(graph.names),
        "weights": coverage.weights.total,
        "macs": coverage.macs.total,
        "barriers": len(coverage.barriers),
        "steps": simulate(graph, np.ones(len(graph.names), dtype=np.int64)).makespan,
    }


def both(made: tuple[nn.Module, tuple[int, ...]], folder: Path) -> tuple[Network, Network]:
    module, shape = made
    path = folder / "module.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), (torch.zeros(shape),), str(path), dynamo=True, external_data=False)
        return load(path), from_torch(module, shape)


@pytest.mark.parametrize("make", EXACT.values(), ids=EXACT)
def test_no_barrier_where_the_pixels_needed_are_known(make: Function, tmp_path: Path) -> None:
    onnx, program = both(make(), tmp_path)
    assert figures(onnx) == figures(program)
    assert figures(onnx)["barriers"] == 0
    assert not [line for line in (*onnx.warnings, *program.warnings) if "barrier" in line]


@pytest.mark.parametrize(("make", "waits"), WAITING.values(), ids=WAITING)
def test_barriers_are_the_same(make: Function, waits: int, tmp_path: Path) -> None:
    onnx, program = both(make(), tmp_path)
    assert figures(onnx) == figures(program)
    assert figures(onnx)["barriers"] == waits
