"""Vision transformer: constant weights are linear layers over tokens, attention is digital."""

from __future__ import annotations

from definitions.builder import Builder
from rramalloc.network.network import Network

_WIDTH, _HIDDEN, _BLOCKS, _TOKENS = 768, 3072, 12, 197


def vit_b16() -> Network:
    """ViT-B/16."""
    net = Builder(
        "vit_b16",
        "Dosovitskiy et al., An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale, "
        "ICLR 2021; ViT-B/16 as in torchvision (input 224, 196 patches and a class token). The products with "
        "keys and values are digital: a token needs the keys and values of all tokens. Scores keep the shape "
        "of the queries, their width does not matter for the timing.",
        (3, 224, 224),
    )
    net.conv("conv_proj", _WIDTH, 16, stride=16)
    net.add("barrier", "tokens", shape=[_WIDTH, _TOKENS, 1])
    for index in range(_BLOCKS):
        _block(net, f"encoder{index}")
    net.add("layernorm", "ln")
    net.add("barrier", "class_token", shape=[_WIDTH, 1, 1])
    net.linear("head", 1000)
    return net.build()


def _block(net: Builder, name: str) -> None:
    source = net.last
    net.add("layernorm", f"{name}.ln1")
    joint = net.linear(f"{name}.qkv", 3 * _WIDTH)
    query, key, value = (
        net.add("select", f"{name}.{part}", joint, channels=_WIDTH) for part in ("query", "key", "value")
    )
    keys = net.add("barrier", f"{name}.keys", key, shape=[_WIDTH, 1, 1])
    net.add("mul", f"{name}.scores", (query, keys), dynamic_macs=_TOKENS**2 * _WIDTH)
    weights = net.add("softmax", f"{name}.softmax")
    values = net.add("barrier", f"{name}.values", value, shape=[_WIDTH, 1, 1])
    net.add("mul", f"{name}.attention", (weights, values), dynamic_macs=_TOKENS**2 * _WIDTH)
    net.linear(f"{name}.proj", _WIDTH)
    attended = net.total(f"{name}.add1", source, net.last)
    net.add("layernorm", f"{name}.ln2")
    net.linear(f"{name}.mlp1", _HIDDEN)
    net.add("activation", f"{name}.gelu")
    net.linear(f"{name}.mlp2", _WIDTH)
    net.total(f"{name}.add2", attended, net.last)
