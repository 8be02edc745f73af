"""PyTorch programs: shapes as PyTorch computes them; dependencies as in docs/sources/model.md 2."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws.reference import needed_pixels, pixels

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from rramalloc import optimize  # noqa: E402
from rramalloc.commands.verify.reference import weights_in  # noqa: E402
from rramalloc.errors import FileError, RramallocError, SpecError, UnsupportedError  # noqa: E402
from rramalloc.importers import load  # noqa: E402
from rramalloc.importers.onnx import from_model  # noqa: E402
from rramalloc.importers.torch import from_torch  # noqa: E402
from rramalloc.network.counts import macs, weights  # noqa: E402
from rramalloc.network.network import Network  # noqa: E402
from rramalloc.network.receptive import last_needed  # noqa: E402
from rramalloc.timing.simulate import simulate  # noqa: E402
from rramalloc.timing.stage_graph import StageGraph  # noqa: E402

Function = Callable[..., Any]


class Made(nn.Module):
    """Layers by name and a forward function over them: a network in one expression."""

    def __init__(self, forward: Function, **layers: Any) -> None:
        super().__init__()
        for name, layer in layers.items():
            setattr(self, name, layer)
        self.function = forward

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def vgg() -> nn.Module:
    features = [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    features += [
        nn.Conv2d(8, 16, 3, padding="same"),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2, ceil_mode=True),
    ]
    classifier = nn.Sequential(nn.Linear(1024, 32), nn.ReLU(), nn.Dropout(), nn.Linear(32, 10))
    return Made(
        lambda m, x: m.classifier(torch.flatten(m.features(x), 1)),
        features=nn.Sequential(*features),
        classifier=classifier,
    )


def residual() -> nn.Module:
    def forward(m: Any, x: Any) -> Any:
        y = m.conv2(m.relu(m.bn1(m.conv1(x))))
        y += m.down(x)
        return m.fc(torch.flatten(m.pool(m.relu(y)), 1))

    return Made(
        forward,
        conv1=nn.Conv2d(4, 8, 3, 2, 1, bias=False),
        bn1=nn.BatchNorm2d(8),
        relu=nn.ReLU(inplace=True),
        conv2=nn.Conv2d(8, 8, 3, 1, 1),
        down=nn.Conv2d(4, 8, 1, 2),
        pool=nn.AdaptiveAvgPool2d(1),
        fc=nn.Linear(8, 3),
    )


def unet() -> nn.Module:
    def forward(m: Any, x: Any) -> Any:
        a = m.enc(x)
        b = m.down(a)
        return m.out(torch.cat([a, m.up2(b), m.up3(b)], 1))

    return Made(
        forward,
        enc=nn.Conv2d(1, 4, 3, padding=1),
        down=nn.Conv2d(4, 8, 3, 2, 1),
        up2=nn.ConvTranspose2d(8, 4, 2, 2),
        up3=nn.ConvTranspose2d(8, 4, 3, 2, 1, output_padding=1),
        out=nn.Conv2d(12, 2, 1),
    )


def shuffle() -> nn.Module:
    def forward(m: Any, x: Any) -> Any:
        left, right = m.group(x).chunk(2, 1)
        x = torch.cat([left, m.depth(right)], 1)
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)

    return Made(forward, group=nn.Conv2d(8, 8, 1, groups=2), depth=nn.Conv2d(4, 4, 3, padding=1, groups=4))


def mobile() -> nn.Module:
    gate = nn.Sequential(
        nn.AdaptiveAvgPool2d(1), nn.Conv2d(24, 6, 1), nn.SiLU(), nn.Conv2d(6, 24, 1), nn.Sigmoid()
    )

    def forward(m: Any, x: Any) -> Any:
        x = m.swish(m.depth(m.relu6(m.expand(x))))
        return m.project(x * m.gate(x)).mean([2, 3])

    return Made(
        forward,
        expand=nn.Conv2d(4, 24, 1),
        depth=nn.Conv2d(24, 24, 3, 2, 1, groups=24),
        relu6=nn.ReLU6(),
        swish=nn.Hardswish(),
        gate=gate,
        project=nn.Conv2d(24, 4, 1),
    )


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)

    def forward(m: Any, x: Any) -> Any:
        tokens = m.patch(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([m.cls.expand(1, -1, -1), tokens], 1) + m.position
        return m.head(m.encoder(tokens)[:, 0])

    return Made(
        forward,
        patch=nn.Conv2d(3, 16, 4, 4),
        cls=nn.Parameter(torch.zeros(1, 1, 16)),
        position=nn.Parameter(torch.zeros(1, 17, 16)),
        encoder=layer,
        head=nn.Linear(16, 5),
    )


NETWORKS = {
    "vgg": (vgg, (1, 3, 30, 30)),
    "residual": (residual, (1, 4, 16, 12)),
    "unet": (unet, (1, 1, 16, 16)),
    "shuffle": (shuffle, (1, 8, 8, 6)),
    "mobile": (mobile, (1, 4, 16, 16)),
    "transformer": (transformer, (1, 3, 16, 16)),
}
each_network = pytest.mark.parametrize(("build", "shape"), NETWORKS.values(), ids=NETWORKS)


def grid_shape(name: str, tensor: Any) -> tuple[int, int, int]:
    """docs/sources/model.md 2: images are grids, 1-D signals and token sequences T x 1, vectors 1 x 1."""
    dims = tuple(tensor.shape)
    if name in ("norm", "widen", "gelu", "narrow"):  # channels last
        return dims[3], dims[1], dims[2]
    match dims:
        case (_, channels, height, width):
            return channels, height, width
        case (_, channels, length) if name.isdigit():  # signal
            return channels, length, 1
        case (_, tokens, channels):
            return channels, tokens, 1
    return dims[-1], 1, 1


@each_network
def test_shapes_are_those_of_pytorch(build: Function, shape: tuple[int, ...]) -> None:
    module = build().eval()
    network = from_torch(module, shape)
    computed: dict[str, Any] = {}
    for path, layer in module.named_modules():
        if path and not list(layer.children()):
            layer.register_forward_hook(
                lambda _layer, _inputs, output, path=path: computed.setdefault(path, output)
            )
    with torch.no_grad(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        torch.backends.mha.set_fastpath_enabled(False)
        module(torch.zeros(shape))
        torch.backends.mha.set_fastpath_enabled(True)
    named = {name: tensor for name, tensor in computed.items() if name in network.shapes}
    assert set(named) >= {name for name in computed if "out_proj" not in name} - {"encoder.self_attn"}
    for name, tensor in named.items():
        assert network.shapes[name] == grid_shape(name, tensor), name
    assert all("waits for whole rows" in warning for warning in network.warnings)


@each_network
def test_live_module_and_exported_program_agree(build: Function, shape: tuple[int, ...]) -> None:
    module = build()
    live = from_torch(module, shape)
    exported = from_torch(torch.export.export(module.eval(), (torch.randn(shape),)))
    assert exported.nodes == live.nodes
    assert exported.warnings == live.warnings


def test_an_archive_is_read_by_the_two_lines_of_its_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those with a quantised network are a table of bits then; the archive itself is refused for them too."""

    def forward(m: Any, x: Any) -> Any:
        return m.conv(torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 63))

    monkeypatch.chdir(tmp_path)
    module = Made(forward, conv=nn.Conv2d(3, 4, 3)).eval()
    program = torch.export.export(module, (torch.zeros(1, 3, 8, 8),))
    torch.export.save(program, "net.pt2")
    for refused in (lambda: load("net.pt2"), lambda: optimize(from_torch(program), 8, bits="net.pt2")):
        with pytest.raises(FileError, match="is an archive of torch") as told:
            refused()
    _, first, _, second, _ = str(told.value).split("`")
    exec(f"{first}\n{second}", {})  # noqa: S102 - our own words
    network = load("net.json")
    assert network.nodes == from_torch(program).nodes
    assert [(stage.weight_bits, stage.input_bits) for stage in network.stages] == [(None, 6)]


def ops(network: Network) -> dict[str, str]:
    return {node.name: node.op for node in network.nodes}


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_transposed_convolution_of_any_geometry(seed: int) -> None:
    """Shape, weights, MACs and needed pixels as PyTorch's own operator has them.

    An output pixel needs an input pixel if it changes with it, where all weights are 1.
    """
    random = Random(seed)
    groups, extents = random.choice((1, 1, 2)), (random.randint(1, 5), random.randint(1, 5))
    kernel, stride, dilation = (tuple(random.randint(1, most) for _ in range(2)) for most in (4, 3, 2))
    padding = tuple(random.randint(0, (k - 1) * d // 2) for k, d in zip(kernel, dilation, strict=True))
    added = tuple(random.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation, strict=True))
    layer = nn.ConvTranspose2d(2, 2 * groups, kernel, stride, padding, added, groups, False, dilation)
    nn.init.ones_(layer.weight)
    full = [(n - 1) * s + d * (k - 1) + a - 2 * p for n, s, d, k, a, p in
            zip(extents, stride, dilation, kernel, added, padding, strict=True)]  # fmt: skip
    if min(full) < 0:
        return
    network = from_torch(layer, (1, 2, *extents))
    node, stage = network.nodes[-1], network.stages[0]
    image = torch.zeros(1, 2, *extents)
    with FlopCounterMode(display=False) as flops:
        plain = layer(image)
    assert network.shapes[node.name] == tuple(plain.shape[1:])
    assert weights(network, stage) == layer.weight.numel()
    assert 2 * macs(network, stage) == flops.get_total_flops()
    output = network.shapes[node.name]
    for pixel in range(extents[0] * extents[1]):
        image.zero_()
        image.view(1, 2, -1)[:, :, pixel] = 1
        at = np.divmod(pixel, extents[1])
        rows, columns = (
            last_needed(node, axis, (np.arange(extents[axis]) == at[axis]).astype(np.int32),
                        network.input_shape(node), output)
            for axis in (0, 1)
        )  # fmt: skip
        needs = np.outer(rows == 1, columns == 1)
        assert (needs == (layer(image)[0, 0].detach().numpy() > 0)).all()


ONE_OPERATOR: list[Any] = [
    (lambda x: x.relu_(), "relu", (4, 8, 6)),
    (lambda x: 1 - x, "activation", (4, 8, 6)),
    (lambda x: x + torch.ones(4, 1, 1), "activation", (4, 8, 6)),
    (lambda x: x.to(torch.float64), "identity", (4, 8, 6)),
    (lambda x: F.softmax(x, 1), "softmax", (4, 8, 6)),
    (lambda x: F.softmax(x, 2), "barrier", (4, 8, 6)),
    (lambda x: F.layer_norm(x, (4, 8, 6)), "barrier", (4, 8, 6)),
    (lambda x: x.mean((2, 3)), "global_avgpool", (4, 1, 1)),
    (lambda x: x.max(1, keepdim=True)[0], "select", (1, 8, 6)),
    (lambda x: x.mean(3, True), "avgpool", (4, 8, 1)),
    (lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True), "avgpool", (4, 4, 3)),
    (lambda x: F.adaptive_avg_pool2d(x, (4, 2)), "avgpool", (4, 4, 2)),
    (lambda x: F.adaptive_max_pool2d(x, 2), "maxpool", (4, 2, 2)),
    (lambda x: F.interpolate(x, (16, 18), mode="bilinear"), "upsample", (4, 16, 18)),
    (lambda x: F.pad(x, (-1, 0, 0, 2)), "take", (4, 10, 5)),
    (lambda x: F.pad(x, (0, 0, 0, 0, 1, 1)), "select", (6, 8, 6)),
    (lambda x: x[:, 1], "select", (1, 8, 6)),
    (lambda x: x[:, :, 1::2], "take", (4, 4, 6)),
    (lambda x: x.split([1, 3], 1)[1], "select", (3, 8, 6)),
    (lambda x: torch.stack([x, x], 1), "concat", (8, 8, 6)),
    (lambda x: torch.cat([x, torch.ones(1, 1, 8, 6)], 1), "select", (5, 8, 6)),
    (lambda x: x.permute(0, 2, 3, 1), "conv", (4, 8, 6)),
    (lambda x: x.flip(3), "take", (4, 8, 6)),
    (lambda x: x @ torch.ones(6, 9), "linear", (9, 8, 4)),
]


@pytest.mark.parametrize(("function", "op", "shape"), ONE_OPERATOR)
@pytest.mark.filterwarnings("ignore")
def test_one_operator(function: Function, op: str, shape: tuple[int, int, int]) -> None:
    """Input 4 x 8 x 6, behind a convolution that makes it an image."""
    module = Made(lambda m, x: function(m.conv(x)), conv=nn.Conv2d(4, 4, 1))
    network = from_torch(module, (1, 4, 8, 6))
    last = network.nodes[-1]
    assert (last.op, network.shapes[last.name]) == (op, shape)
    assert all("waits for whole rows" in warning for warning in network.warnings)


@pytest.mark.parametrize(
    ("function", "warning"),
    [
        (lambda x: F.unfold(x, 3), "operator Gather (2 nodes"),
        (lambda x: F.interpolate(x, (9, 9)), "does not enlarge by whole"),
        (lambda x: F.conv2d(x, x[:, :, :1, :1]), "has computed weights"),
        (
            lambda x: torch.searchsorted(x, x) + torch.searchsorted(-x, x),
            "operator aten.searchsorted (2 nodes",
        ),
    ],
)
def test_barriers_with_one_warning(function: Function, warning: str) -> None:
    module = Made(lambda m, x: function(m.conv(x)), conv=nn.Conv2d(4, 1, 1))
    network = from_torch(module, (1, 4, 8, 6))
    assert "barrier" in ops(network).values()
    assert len(network.warnings) == 1
    assert warning in network.warnings[0]


@pytest.mark.filterwarnings("ignore")
def test_weights_in_unknown_operators_are_refused_or_counted() -> None:
    """Projected states are not modelled: 4 gates of 4 units with 4 inputs and 2 states, and 2 x 4 more."""
    module = Made(
        lambda m, x: m.fc(m.lstm(x)[0]), lstm=nn.LSTM(4, 4, proj_size=2, batch_first=True), fc=nn.Linear(2, 2)
    )
    with pytest.raises(UnsupportedError, match=r"aten.lstm 'lstm' \(104 weights\).*--allow-partial"):
        from_torch(module, (1, 5, 4))
    network = from_torch(module, (1, 5, 4), allow_partial=True)
    assert any("take no arrays" in line for line in network.warnings)
    assert [(item.weights, item.macs) for item in network.unmodelled] == [(104, None)]


def test_experts_whose_tokens_data_picks_are_refused_with_the_form_that_is_read() -> None:
    """Two experts of 4 x 4, each on the tokens that chose it, as many as these are."""

    def forward(m: Any, x: Any) -> Any:
        for number, expert in enumerate(m.experts):
            places = torch.nonzero(m.gate(x).argmax(-1)[0] == number)[:, 0]
            if len(places):
                x = x.index_add(1, places, expert(x[:, places]))
        return x

    experts = nn.ModuleList(nn.Linear(4, 4, bias=False) for _ in range(2))
    module = Made(forward, experts=experts, gate=nn.Linear(4, 2))
    told = r"32 weights of experts \(experts.0.weight and 1 more\) work: .*all experts work on all tokens"
    with pytest.raises(UnsupportedError, match=told):
        from_torch(module, (1, 6, 4))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.filterwarnings("ignore")
def test_recurrent_layers_are_the_same_from_onnx_and_from_pytorch(kind: Any, tmp_path: Path) -> None:
    """Two layers, both directions; all weights but biases are on arrays."""
    module = Made(
        lambda m, x: m.fc(m.rnn(x)[0]),
        rnn=kind(4, 6, num_layers=2, bidirectional=True, batch_first=True),
        fc=nn.Linear(12, 3),
    ).eval()
    torch.onnx.export(module, (torch.zeros(1, 7, 4),), str(tmp_path / "rnn.onnx"), dynamo=True)
    networks = load(tmp_path / "rnn.onnx"), from_torch(module, (1, 7, 4))
    matrices = sum(value.numel() for name, value in module.named_parameters() if "bias" not in name)
    steps = []
    for network in networks:
        assert [stage.op for stage in network.stages].count("recurrent") == 4
        assert sum(weights(network, stage) for stage in network.stages) == matrices
        graph = StageGraph.build(network)
        steps.append(simulate(graph, np.ones(9, dtype=np.int64)).makespan)
    assert steps[0] == steps[1]


def test_modules_that_are_called_twice_share_their_weights() -> None:
    module = Made(
        lambda m, x: m.conv(m.conv(x)) + m.other(x), conv=nn.Conv2d(2, 2, 1), other=nn.Conv2d(2, 2, 1)
    )
    network = from_torch(module, (1, 2, 8, 8))
    assert {stage.name: stage.shares for stage in network.stages} == {
        "conv": None, "conv_2": "conv", "other": None,
    }  # fmt: skip


def test_module_is_not_changed() -> None:
    module = vgg().train()
    before = {
        name: (id(value), value.device.type) for name, value in module.state_dict(keep_vars=True).items()
    }
    from_torch(module, (1, 3, 30, 30))
    assert module.training
    assert {n: (id(v), v.device.type) for n, v in module.state_dict(keep_vars=True).items()} == before


class Scaled(nn.Module):
    """Two convolutions and a linear layer; scale: a plain value."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.b = nn.Conv2d(8, 4, 3, padding=1, stride=2)
        self.fc = nn.Linear(4, 5)

    def forward(self, image: Any, scale: float = 1.0) -> Any:
        return self.fc(self.b(torch.relu(self.norm(self.a(image))) * scale).mean((2, 3)))


IMAGE = (1, 3, 16, 16)


@pytest.mark.parametrize(
    ("module", "example", "kwargs"),
    [
        (Scaled().bfloat16(), IMAGE, None),
        (Scaled().double(), IMAGE, None),
        (Scaled().half().to("meta"), [*np.array(IMAGE)], None),
        (Scaled().half(), [torch.zeros(IMAGE).half(), 2.0], None),
        (Scaled(), torch.zeros(IMAGE, device="meta"), {"scale": 0.5}),
        (Scaled(), (), {"image": IMAGE, "scale": 2.0}),
        (Scaled(), (4, *IMAGE[1:]), None),
    ],
)
def test_types_and_examples_of_inputs(module: nn.Module, example: Any, kwargs: Any) -> None:
    """By hand: 16 x 16 windows of 3 * 8 * 9 weights, 8 x 8 of 8 * 4 * 9, one of 4 * 5."""
    network = from_torch(module, example, kwargs=kwargs)
    layers = [(network.shapes[each.name].pixels, weights(network, each)) for each in network.stages]
    assert layers == [(256, 216), (64, 288), (1, 20)]
    batch = "input 'image' has a batch of 4: taken as 1, one input at a time"
    assert network.warnings == ((batch,) if example == (4, *IMAGE[1:]) else ())


@pytest.mark.parametrize(("args", "kwargs"), [((2.0,), {}), ((), {"scale": 2.0})])
def test_programs_with_inputs_that_are_plain_values(
    args: tuple[float, ...], kwargs: dict[str, float]
) -> None:
    images = torch.zeros(4, *IMAGE[1:]).half()
    network = from_torch(torch.export.export(Scaled().half().eval(), (images, *args), kwargs))
    assert [weights(network, each) for each in network.stages] == [216, 288, 20]
    assert network.shapes["image"] == (3, 16, 16)


class Tokens(nn.Module):
    """An embedding of 16 features, a linear layer and a head of the first token; mask: of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 16)
        self.each = nn.Linear(16, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, ids: Any, mask: Any = None) -> Any:
        x = self.each(self.table(ids))
        return self.head((x if mask is None else x * mask.unsqueeze(-1))[:, 0])


@pytest.mark.parametrize(
    ("module", "example", "kwargs"),
    [
        (Tokens(), (1, 12), None),
        (Tokens().bfloat16(), [(1, 12), (1, 12)], {}),
        (Tokens(), torch.zeros(1, 12, dtype=torch.int32), {"mask": torch.ones(1, 12)}),
    ],
)
def test_tokens(module: nn.Module, example: Any, kwargs: Any) -> None:
    network = from_torch(module, example, kwargs=kwargs)
    layers = [(network.shapes[each.name].pixels, weights(network, each)) for each in network.stages]
    assert layers == [(12, 128), (1, 32)]


def followed(message: str, module: Any) -> Network:
    """Do what a message says, in its words but for the example, and return the network that this writes."""
    _, call, _ = message.split("`")
    call = call.replace("1, 3, 224, 224", "1, 3, 16, 16")
    exec(call, {"torch": torch, "module": module, "examples": (torch.zeros(IMAGE),)})  # noqa: S102 - our own words
    (written,) = Path().glob("*.onnx")
    return load(written)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "save",
    [
        lambda module: torch.save(module.state_dict(), "net.pth"),
        lambda module: torch.save(module, "net.pth"),
        lambda module: torch.save(module.state_dict(), "net.pth", _use_new_zipfile_serialization=False),
        lambda module: torch.jit.save(torch.jit.trace(module, torch.zeros(IMAGE)), "net.pth"),
    ],
)
def test_files_of_pytorch_that_are_no_program_say_how_one_is_written(
    save: Function, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = Scaled().eval()
    save(module)
    with pytest.raises(
        FileError, match=r"^net.pth: is (a pickle of PyTorch|TorchScript) \(torch.(jit.)?save\)"
    ) as told:
        load("net.pth")
    network = followed(str(told.value), module)
    assert [weights(network, each) for each in network.stages] == [216, 288, 20]


@pytest.mark.filterwarnings("ignore")
def test_torchscript_is_told_how_it_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = torch.jit.trace(Scaled().eval(), torch.zeros(IMAGE))
    with pytest.raises(UnsupportedError, match="is TorchScript") as told:
        from_torch(script, IMAGE)
    network = followed(str(told.value), script)
    assert [weights(network, each) for each in network.stages] == [216, 288, 20]


class Choice(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))


@pytest.mark.parametrize(
    ("build", "shape", "error", "reason"),
    [
        (Choice, (1, 4), UnsupportedError, "control flow"),
        (lambda: nn.Conv3d(1, 1, 3), (1, 1, 8, 8, 8), UnsupportedError, "3-D data"),
        (vgg, (1, 4, 30, 30), SpecError, "cannot trace it with inputs of 1x4x30x30"),
        (vgg, (1, 3, 0, 30), SpecError, "from 1 to"),
        (vgg, "1333", SpecError, "must be a shape"),
        (vgg, [(1, 3, 30, 30), {1}], SpecError, "or a tensor, got {1}"),
        (lambda: 3, (1, 3), SpecError, "must be a torch.nn.Module"),
        (lambda: vgg().state_dict(), (1, 3), SpecError, "got a state dict, .* build the module"),
        (lambda: {"model": vgg().state_dict()}, (1, 3), SpecError, "got a state dict, .* build the module"),
        (lambda: nn.ReLU, (1, 3), SpecError, "got the class ReLU: give a module that it makes"),
        (lambda: "vgg.pth", (1, 3), SpecError, "got a path, 'vgg.pth': rramalloc.load reads files"),
    ],
)
def test_faults_of_live_modules(build: Function, shape: Any, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        from_torch(build(), shape)


def test_names_of_modules_from_onnx(tmp_path: Path) -> None:
    """Both exporters name the weights after the modules; the newer one notes the modules of all nodes."""

    def forward(m: Any, x: Any) -> Any:
        return m.blocks[0](m.blocks(x)) + x

    conv = nn.Conv2d(4, 4, 3, padding=1)
    module = Made(forward, blocks=nn.Sequential(conv, nn.ReLU(), nn.Conv2d(4, 4, 1))).eval()
    image, path = (torch.zeros(1, 4, 6, 6),), tmp_path / "net.onnx"
    for dynamo in (True, False):
        torch.onnx.export(module, image, str(path), dynamo=dynamo, external_data=False)
        named = load(path)
        assert [stage.name for stage in named.stages] == ["blocks.0", "blocks.2", "blocks.0_2"]
        plain = load(path, names="onnx")
        assert not {"blocks.0", "blocks.2"} & {node.name for node in plain.nodes}
        assert [node.op for node in plain.nodes] == [node.op for node in named.nodes]
        assert set(weights_in(path, named)) == {"blocks.0", "blocks.2", "blocks.0_2"}
        assert len(weights_in(path, plain)) == 3
        if dynamo:
            assert {"blocks.1", "add"} <= {node.name for node in named.nodes}
    with pytest.raises(RramallocError, match="names"):
        load(path, names="torch")  # type: ignore[arg-type]


@pytest.mark.parametrize("note", ["['a']", "[" * 3000, "['', 'a', 3]"])
def test_damaged_names_of_modules(note: str) -> None:
    """A note that is no list of module paths leaves the ONNX names."""
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], name="plain")
    for key in ("name_scopes", "class_hierarchy"):
        node.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=note)
    graph = onnx.helper.make_graph(
        [node], "g",
        [onnx.helper.make_tensor_value_info("x", 1, (1, 2, 4, 4))],
        [onnx.helper.make_empty_tensor_value_info("y")],
        [onnx.helper.make_tensor("w", 1, (2, 2, 1, 1), [0.0] * 4)],
    )  # fmt: skip
    network = from_model(onnx.helper.make_model(graph), "net.onnx", {})
    assert network.stages[0].name == "plain"


class ShiftedWindows(nn.Module):
    """A block of Swin: rows and columns shifted, attention within windows of 4 x 4, and back."""

    def __init__(self, shift: int) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(2, 8, 1), nn.Conv2d(8, 2, 1)
        self.qkv, self.norm, self.shift = nn.Linear(8, 24), nn.LayerNorm(8), shift

    def forward(self, x: Any) -> Any:
        x = self.first(x).permute(0, 2, 3, 1)
        kept, size = x, x.shape[1]
        x = torch.roll(self.norm(x), (-self.shift, -self.shift), (1, 2))
        x = x.view(1, size // 4, 4, size // 4, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 8)
        q, k, v = self.qkv(x).reshape(-1, 16, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        x = ((q @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).reshape(-1, 16, 8)
        x = x.view(1, size // 4, size // 4, 4, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(1, size, size, 8)
        x = torch.roll(x, (self.shift, self.shift), (1, 2)) + kept
        return self.last(x.permute(0, 3, 1, 2))


def changed_pixels(module: nn.Module, image: Any, pixel: int) -> set[int]:
    """Output pixels that change with one input pixel."""
    other = image.clone()
    other.view(1, image.shape[1], -1)[:, :, pixel] += 1
    difference = (module(image) - module(other)).abs().amax(1).flatten()
    return set(torch.nonzero(difference > 1e-9).flatten().tolist())


@pytest.mark.parametrize("shift", [0, 2])
def test_windows_need_what_pytorch_reads(shift: int, tmp_path: Path) -> None:
    """From ONNX every output pixel needs exactly the pixels of its window and its own."""
    torch.manual_seed(0)
    module, image = ShiftedWindows(shift).double().eval(), torch.rand(1, 2, 8, 8, dtype=torch.float64)
    path = tmp_path / "windows.onnx"
    torch.onnx.export(module, (image,), str(path), dynamo=True, external_data=False)
    network = load(path)
    assert "barrier" not in {node.op for node in network.nodes}
    needs: dict[str, dict[tuple[int, int], set[tuple[int, int]]]] = {}
    for node in network.nodes:
        grid = pixels(network.shapes[node.name])
        if not node.inputs:
            needs[node.name] = {pixel: {pixel} for pixel in grid}
            continue
        needs[node.name] = {
            pixel: {
                origin
                for name in node.inputs
                for source in needed_pixels(node, pixel, network.shapes[name])
                for origin in needs[name][source]
            }
            for pixel in grid
        }
    found = needs[network.nodes[-1].name]
    with torch.no_grad():
        for at in range(64):
            users = {y * 8 + x for (y, x), origins in found.items() if divmod(at, 8) in origins}
            assert users == changed_pixels(module, image, at)
