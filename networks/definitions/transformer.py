"""Transformers: constant weights are linear layers over tokens, attention is digital."""

from __future__ import annotations

from definitions.builder import Builder
from rramalloc.network.network import Network

_WIDTH, _HIDDEN, _BLOCKS = 768, 3072, 12
"""Of ViT-B and of GPT-2 small alike."""
_IMAGE = 224
_CONTEXT = 1024
_VOCABULARY = 50_257
_ATTENTION = (
    "The products with keys and values are digital: a token needs the keys and values of all tokens. "
    "Scores keep the shape of the queries, their width does not matter for the timing."
)


def vit_b16() -> Network:
    """ViT-B/16."""
    return _vit_b(16)


def vit_b32() -> Network:
    """ViT-B/32."""
    return _vit_b(32)


def _vit_b(patch: int) -> Network:
    patches = (_IMAGE // patch) ** 2
    tokens = patches + 1
    net = Builder(
        f"vit_b{patch}",
        "Dosovitskiy et al., An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale, "
        f"ICLR 2021; ViT-B/{patch} as in torchvision (input {_IMAGE}, {patches} patches and a class token). "
        f"{_ATTENTION}",
        (3, _IMAGE, _IMAGE),
    )
    net.conv("conv_proj", _WIDTH, patch, stride=patch)
    net.add("barrier", "tokens", shape=[_WIDTH, tokens, 1])
    for index in range(_BLOCKS):
        _block(net, f"encoder{index}", tokens)
    net.add("layernorm", "ln")
    net.add("barrier", "class_token", shape=[_WIDTH, 1, 1])
    net.linear("head", 1000)
    return net.build()


def gpt2_small() -> Network:
    """GPT-2 small, the prefill of a full context."""
    net = Builder(
        "gpt2_small",
        "Radford et al., Language Models are Unsupervised Multitask Learners, 2019; GPT-2 of 124 million "
        f"parameters, the prefill of {_CONTEXT} tokens and the scores of the next one. The embeddings are "
        "look-up tables; the head is the token embedding again, on the host unless it is put on arrays. "
        f"{_ATTENTION} What the causal mask leaves out is computed, and waited for.",
        (1, _CONTEXT, 1),
    )
    net.add("select", "embedding", channels=_WIDTH)
    for index in range(_BLOCKS):
        _block(net, f"block{index}", _CONTEXT)
    net.add("layernorm", "ln")
    net.add("barrier", "last_token", shape=[_WIDTH, 1, 1])
    net.linear("head", _VOCABULARY)
    return net.build()


def _block(net: Builder, name: str, tokens: int) -> None:
    source = net.last
    net.add("layernorm", f"{name}.ln1")
    joint = net.linear(f"{name}.qkv", 3 * _WIDTH)
    query, key, value = (
        net.add("select", f"{name}.{part}", joint, channels=_WIDTH) for part in ("query", "key", "value")
    )
    keys = net.add("barrier", f"{name}.keys", key, shape=[_WIDTH, 1, 1])
    net.add("mul", f"{name}.scores", (query, keys), dynamic_macs=tokens**2 * _WIDTH)
    weights = net.add("softmax", f"{name}.softmax")
    values = net.add("barrier", f"{name}.values", value, shape=[_WIDTH, 1, 1])
    net.add("mul", f"{name}.attention", (weights, values), dynamic_macs=tokens**2 * _WIDTH)
    net.linear(f"{name}.proj", _WIDTH)
    attended = net.total(f"{name}.add1", source, net.last)
    net.add("layernorm", f"{name}.ln2")
    net.linear(f"{name}.mlp1", _HIDDEN)
    net.add("activation", f"{name}.gelu")
    net.linear(f"{name}.mlp2", _WIDTH)
    net.total(f"{name}.add2", attended, net.last)
