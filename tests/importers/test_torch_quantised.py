"""PyTorch's own quantisation: the layers keep their bits, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from rramalloc.importers.torch import from_torch  # noqa: E402
from rramalloc.network.network import Network  # noqa: E402

IMAGE = torch.rand(1, 3, 8, 8)


def plain() -> nn.Module:
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten(), nn.Linear(288, 10)]
    return nn.Sequential(*layers).eval()


def bits(network: Network) -> set[tuple[int | None, int | None]]:
    return {(stage.weight_bits, stage.input_bits) for stage in network.stages}


@pytest.mark.parametrize("dynamic", [False, True], ids=["calibrated", "scales computed at run time"])
@pytest.mark.filterwarnings("ignore")
def test_programs_of_torchao(dynamic: bool) -> None:
    pytest.importorskip("torchao")
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    configuration = x86.get_default_x86_inductor_quantization_config(is_dynamic=dynamic)
    module = nn.Sequential(nn.Flatten(), nn.Linear(192, 10), nn.ReLU(), nn.Linear(10, 4)).eval()
    module = module if dynamic else plain()
    prepared = prepare_pt2e(
        torch.export.export(module, (IMAGE,)).module(), x86.X86InductorQuantizer().set_global(configuration)
    )
    prepared(IMAGE)
    program = torch.export.export(convert_pt2e(prepared), (IMAGE,))
    network = from_torch(program)
    assert bits(network) == {(8, 8)}
    assert "barrier" not in {node.op for node in network.nodes}
    calibrated = [line for line in network.warnings if "taken as calibrated" in line]
    assert len(calibrated) == int(dynamic)


def test_fake_quantisation_during_training() -> None:
    """4 bits of weights, 6 of inputs, by the bounds of the whole numbers."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.rand(8, 3, 3, 3))

        def forward(self, x: Any) -> Any:
            x = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 63)
            weight = torch.fake_quantize_per_tensor_affine(self.weight, 0.1, 0, -8, 7)
            return nn.functional.conv2d(x, weight)

    network = from_torch(Layer(), (1, 3, 8, 8))
    assert bits(network) == {(4, 6)}


def test_a_fake_quantised_module_has_its_name() -> None:
    """What fits the float network by name fits the quantised one."""

    class Quantised(nn.Conv2d):
        def forward(self, x: Any) -> Any:
            x = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 63)
            weight = torch.fake_quantize_per_tensor_affine(self.weight, 0.1, 0, -8, 7)
            return self._conv_forward(x, weight, self.bias)

    def network(kind: type[nn.Conv2d]) -> Network:
        block = nn.Sequential()
        block.add_module("dw", kind(3, 3, 3, groups=3))
        block.add_module("act", nn.ReLU())
        block.add_module("pw", kind(3, 8, 1))
        return from_torch(nn.Sequential(block, kind(8, 4, 1)), (1, 3, 8, 8))

    names = [stage.name for stage in network(nn.Conv2d).stages]
    assert names == ["0.dw", "0.pw", "1"]
    assert [stage.name for stage in network(Quantised).stages] == names
    assert bits(network(Quantised)) == {(4, 6)}
