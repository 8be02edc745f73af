"""Models that aihwkit converted to analog are read as the models that they were made from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
pytest.importorskip("aihwkit")
from aihwkit.nn import AnalogRNN, AnalogVanillaRNNCell  # noqa: E402
from aihwkit.nn.conversion import convert_to_analog  # noqa: E402
from aihwkit.simulator.configs import TorchInferenceRPUConfig  # noqa: E402
from torch import nn  # noqa: E402

import rramalloc  # noqa: E402
from rramalloc.errors import UnsupportedError  # noqa: E402
from rramalloc.importers.torch import from_torch  # noqa: E402


def small_tiles() -> Any:
    config = TorchInferenceRPUConfig()
    config.mapping.max_input_size, config.mapping.max_output_size = 64, 16
    return config


class Residual(nn.Module):
    """A block with a skip, batch normalisation and no bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.second, self.head = nn.Conv2d(4, 4, 3, padding=1), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        y = self.second(self.norm(self.first(x)).relu()) + x
        return self.head(y.mean((2, 3)))


class Branches(nn.Module):
    """Two convolutions of one input, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Conv2d(3, 4, 5, padding=2), nn.Conv2d(3, 2, 1)

    def forward(self, x: Any) -> Any:
        return torch.cat([self.wide(x), self.narrow(x)], 1)


class Spoken(nn.Module):
    """A convolution in time, a recurrence that stays digital, and a linear layer on each step."""

    def __init__(self) -> None:
        super().__init__()
        self.over, self.state, self.out = nn.Conv1d(2, 4, 3), nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.out(self.state(self.over(x).transpose(1, 2))[0])


def images(*layers: Any) -> Any:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), *layers)


MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "one layer": (lambda: nn.Linear(6, 3), (1, 6)),
    "classifier": (lambda: nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 4)), (1, 20)),
    "tokens": (lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)), (1, 5, 8)),
    "pooled": (lambda: images(nn.MaxPool2d(2), nn.Conv2d(8, 4, 3, stride=2)), (1, 3, 16, 16)),
    "dilated": (lambda: images(nn.Conv2d(8, 4, 3, dilation=2, bias=False)), (1, 3, 12, 12)),
    "nested": (
        lambda: images(nn.Sequential(nn.Sequential(nn.Conv2d(8, 8, 1)), nn.Flatten(), nn.Linear(128, 2))),
        (1, 3, 4, 4),
    ),
    "in time": (lambda: nn.Sequential(nn.Conv1d(2, 4, 5), nn.ReLU(), nn.Conv1d(4, 4, 3)), (1, 2, 20)),
    "residual": (Residual, (1, 4, 6, 6)),
    "branches": (Branches, (1, 3, 6, 6)),
    "spoken": (Spoken, (1, 2, 12)),
}


@pytest.mark.parametrize(("make", "shape"), MODELS.values(), ids=MODELS)
def test_a_converted_model_is_the_one_it_was_made_from(
    make: Callable[[], Any], shape: tuple[int, ...]
) -> None:
    model = make()
    network = from_torch(model, shape)
    assert from_torch(convert_to_analog(model, TorchInferenceRPUConfig()), shape) == network
    tiled = convert_to_analog(model, small_tiles())
    before = [type(part) for part in tiled.modules()]
    assert from_torch(tiled, shape) == network
    assert [type(part) for part in tiled.modules()] == before, "the model is not changed"


def test_tiles_of_a_configuration_are_the_crossbar() -> None:
    """27 weights of each of 8 filters fit a tile of 64 x 16; 72 take two, 20 filters two as well: four."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 20, 3, padding=1))
    config = small_tiles()
    analog = convert_to_analog(model, config)
    found = rramalloc.inspect(from_torch(analog, (1, 3, 8, 8)), crossbar=config)
    assert [layer.arrays_per_copy for layer in found.layers] == [1, 4]
    assert [len([*part.analog_tiles()]) for _, part in analog.named_analog_layers()] == [1, 4]


def test_what_has_no_digital_form_is_told_with_the_remedy() -> None:
    cell = AnalogRNN(AnalogVanillaRNNCell, 4, 4, rpu_config=TorchInferenceRPUConfig())
    with pytest.raises(UnsupportedError, match=r"has analog layers .*convert_to_digital\(model\)"):
        from_torch(cell, (3, 1, 4))
