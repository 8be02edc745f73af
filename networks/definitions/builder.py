"""Builder: nodes appended one after another, each fed by the last one unless `after` names another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rramalloc.network.network import Network

Size = int | tuple[int, int]
Pads = int | tuple[int, int, int, int]


class Builder:
    """Collects the nodes of one network; every method returns the name of the node it adds."""

    def __init__(self, name: str, source: str, shape: tuple[int, int, int]) -> None:
        self.name, self.source = name, source
        self.nodes: list[Mapping[str, Any]] = [{"name": "input", "op": "input", "shape": list(shape)}]
        self.last = "input"

    def build(self) -> Network:
        """Return the checked network."""
        return Network.build(self.name, self.nodes, source=self.source)

    def add(self, op: str, name: str, after: str | Sequence[str] | None = None, **fields: Any) -> str:
        """Any operator; sequences of producers are for concat, add, mul and barrier."""
        producers = [self.last] if after is None else [after] if isinstance(after, str) else list(after)
        self.nodes.append({"name": name, "op": op, "inputs": producers, **fields})
        self.last = name
        return name

    def conv(
        self,
        name: str,
        channels: int,
        kernel: Size,
        *,
        stride: Size = 1,
        pads: Pads = 0,
        groups: int = 1,
        after: str | None = None,
    ) -> str:
        """Convolution with `channels` output channels."""
        return self.add(
            "conv",
            name,
            after,
            out_channels=channels,
            kernel=_listed(kernel),
            stride=_listed(stride),
            pads=_listed(pads),
            groups=groups,
        )

    def linear(self, name: str, features: int, after: str | None = None) -> str:
        """Fully connected layer."""
        return self.add("linear", name, after, out_features=features)

    def maxpool(self, name: str, kernel: int, stride: int, pads: Pads = 0, after: str | None = None) -> str:
        """Max pooling that rounds down."""
        return self.add("maxpool", name, after, kernel=kernel, stride=stride, pads=_listed(pads))

    def avgpool(self, name: str, kernel: int, stride: int, pads: Pads = 0, after: str | None = None) -> str:
        """Average pooling that rounds down."""
        return self.add("avgpool", name, after, kernel=kernel, stride=stride, pads=_listed(pads))

    def relu(self, name: str, after: str | None = None) -> str:
        """Rectifier."""
        return self.add("relu", name, after)

    def batchnorm(self, name: str, after: str | None = None) -> str:
        """Batch normalisation with constants: a scale and an offset per channel."""
        return self.add("batchnorm", name, after)

    def concat(self, name: str, *producers: str) -> str:
        """Channels of all producers, in order."""
        return self.add("concat", name, producers)

    def total(self, name: str, *producers: str) -> str:
        """Elementwise sum of the producers."""
        return self.add("add", name, producers)


def _listed(value: Size | Pads) -> int | list[int]:
    return value if isinstance(value, int) else list(value)
