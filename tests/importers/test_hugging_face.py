"""Tiny Hugging Face models, made here: the same from ONNX and from PyTorch, with all matrices on arrays."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("onnxscript")

from importers.test_sources_agree import figures  # noqa: E402

from rramalloc.importers import load  # noqa: E402
from rramalloc.importers.torch import from_torch  # noqa: E402

SIZES = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}


class Output(torch.nn.Module):
    """A model and the tensor of its output that counts."""

    def __init__(self, model: Any, field: str) -> None:
        super().__init__()
        self.model, self.field = model, field

    def forward(self, x: Any) -> Any:
        return getattr(self.model(x), self.field)


def bert() -> Any:
    config = transformers.BertConfig(**SIZES, intermediate_size=32, attn_implementation="eager")
    return Output(transformers.BertModel(config, add_pooling_layer=False), "last_hidden_state")


def bert_fused() -> Any:
    config = transformers.BertConfig(**SIZES, intermediate_size=32, attn_implementation="sdpa")
    return Output(transformers.BertForSequenceClassification(config), "logits")


def gpt2() -> Any:
    config = transformers.GPT2Config(
        vocab_size=50, n_embd=16, n_layer=2, n_head=2, use_cache=False, attn_implementation="eager"
    )
    return Output(transformers.GPT2Model(config), "last_hidden_state")


def llama() -> Any:
    config = transformers.LlamaConfig(
        **SIZES, num_key_value_heads=1, intermediate_size=32, use_cache=False, attn_implementation="eager"
    )
    return Output(transformers.LlamaModel(config), "last_hidden_state")


def vit() -> Any:
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=32,
        patch_size=8, attn_implementation="eager",
    )  # fmt: skip
    return Output(transformers.ViTForImageClassification(config), "logits")


def segformer() -> Any:
    config = transformers.SegformerConfig(
        depths=[1, 1], num_encoder_blocks=2, sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[7, 3],
        strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=16,
    )  # fmt: skip
    return Output(transformers.SegformerForSemanticSegmentation(config), "logits")


TOKENS = torch.arange(12)[None] % 50
IMAGE = torch.zeros(1, 3, 32, 32)
MODELS: dict[str, tuple[Callable[[], Any], Any]] = {
    "bert": (bert, TOKENS),
    "bert with fused attention": (bert_fused, TOKENS),
    "gpt2": (gpt2, TOKENS),
    "llama": (llama, TOKENS),
    "vit": (vit, IMAGE),
    "segformer": (segformer, IMAGE),
}


def matrices(module: Any) -> int:
    """Weights of layers: matrices and kernels that are no tables."""
    tables = {id(each.weight) for each in module.modules() if isinstance(each, torch.nn.Embedding)}
    kinds = (torch.nn.Linear, torch.nn.Conv2d, transformers.pytorch_utils.Conv1D)
    layers = [each.weight for each in module.modules() if isinstance(each, kinds)]
    return sum(weight.numel() for weight in layers if id(weight) not in tables)


@pytest.mark.parametrize(("build", "x"), MODELS.values(), ids=MODELS)
@pytest.mark.filterwarnings("ignore")
def test_models(build: Callable[[], Any], x: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, path = build().eval(), tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (x,), str(path), dynamo=True, external_data=False)
    onnx, program = load(path), from_torch(torch.export.export(module, (x,)))
    assert figures(onnx) == figures(program)
    assert figures(program)["weights"] == matrices(module)
    assert figures(program)["barriers"] == 0


@pytest.mark.filterwarnings("ignore")
def test_tokens_of_a_dynamic_length(tmp_path: Path) -> None:
    """An open length is that of the example, the batch is 1; the archive says the same."""
    module, length = bert().eval(), torch.export.Dim("length", min=2, max=64)
    batch = torch.export.Dim("batch", min=1, max=8)
    tokens = TOKENS.expand(2, -1).contiguous()
    program = torch.export.export(module, (tokens,), dynamic_shapes={"x": {0: batch, 1: length}})
    torch.export.save(program, tmp_path / "bert.pt2")
    fixed = figures(from_torch(torch.export.export(module, (TOKENS,))))
    assert figures(from_torch(program)) == figures(load(tmp_path / "bert.pt2")) == fixed
