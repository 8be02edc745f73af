"""Small networks on hardware with two kinds of arrays, and all their allocations, each simulated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from random import Random
from typing import Any

import rramalloc
from rramalloc.allocation.simulation import Simulation
from rramalloc.hardware.hardware import Hardware
from rramalloc.network.network import Network

DOCUMENT: dict[str, Any] = {
    "format": "rramalloc-network/1",
    "name": "pair",
    "source": "docs/sources/model.md 18",
    "nodes": [
        {"name": "in", "op": "input", "shape": [16, 2, 2]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 16, "kernel": 1},
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 32, "kernel": 1},
    ],
}
HAND = Network.from_document(DOCUMENT, "pair.json")
"""The network of docs/sources/model.md 18: a copy of a takes 1 array, of b 2 small ones or 1 large one."""


def hardware(small: int | None, large: int | None, *, areas: bool = True, **more: Any) -> Hardware:
    """Return plain arrays of 16 x 16 with 100 um2 and of 32 x 32 with 150 um2."""
    kinds: list[dict[str, Any]] = [{"name": "small"}, {"name": "large"}]
    kinds[1]["crossbar"] = {"wordlines": 32, "bitlines": 32}
    if areas:
        more = {"energy": {"area_um2": 100.0}} | more
        kinds[1]["energy"] = {"area_um2": 150.0}
    for kind, number in zip(kinds, (small, large), strict=True):
        if number is not None:
            kind["arrays"] = number
    document = {
        "name": "two sizes",
        "source": "docs/sources/model.md 18",
        "crossbar": {"wordlines": 16, "bitlines": 16, "cell_bits": 16},
        "precision": {"weight_bits": 16, "input_bits": 16, "output_bits": 16, "signed": "offset"},
        "kinds": kinds,
        **more,
    }
    return Hardware.model_validate(document)


@dataclass(frozen=True)
class KindsCase:
    """A drawn network on two kinds of arrays. by_area: whether the hardware gives their areas."""

    network: Network
    hardware: Hardware
    by_area: bool

    @classmethod
    def drawn(cls, random: Random, stages: int = 2) -> KindsCase:
        """Draw one of a few hundred allocations."""
        nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": [random.choice((4, 16)), 2, 2]}]
        for number in range(stages):
            channels, stride = random.choice((8, 16, 24, 40)), random.choice((1, 1, 2)) if number else 1
            node = {"name": f"s{number}", "op": "conv", "inputs": [nodes[-1]["name"]], "kernel": 1}
            nodes.append(node | {"out_channels": channels, "stride": stride})
        by_area, own = random.random() < 0.7, random.random() < 0.4
        timing: dict[str, Any] = {"step_ns": 10.0}
        kinds: list[dict[str, Any]] = [
            {"name": "small", "arrays": random.randint(3, 9)},
            {"name": "large", "arrays": random.randint(2, 6)},
        ]
        kinds[1]["crossbar"] = {"wordlines": 32, "bitlines": 32}
        document: dict[str, Any] = {}
        if own:
            timing |= {"clock": "own", "tick_ns": 10.0}
            kinds[1]["timing"] = {"step_ns": random.choice((10.0, 20.0))}
        if by_area:
            energy = {"read_pj": 2.0, "leakage_mw": 0.5}
            document["energy"] = {"area_um2": random.choice((50.0, 100.0)), **energy}
            kinds[1]["energy"] = {"area_um2": random.choice((120.0, 250.0)), **energy, "read_pj": 5.0}
        machine = hardware(None, None, areas=False, timing=timing, **document | {"kinds": kinds})
        return cls(Network.build("drawn", nodes), machine, by_area)

    def with_numbers(self, arrays: int) -> KindsCase:
        """Return the case with so many arrays of each kind."""
        kinds = tuple(kind.model_copy(update={"arrays": arrays}) for kind in self.hardware.kinds or ())
        return replace(self, hardware=self.hardware.model_copy(update={"kinds": kinds}))

    def allocations(self) -> Iterator[tuple[dict[str, Any], Simulation]]:
        """Yield every allocation within the numbers of the kinds, with its simulation."""
        kinds = {kind.name: kind.arrays or 0 for kind in self.hardware.kinds or ()}
        stages = self.network.stages
        ways = [
            list(product(kinds, range(1, self.network.shapes[stage.name].pixels + 1))) for stage in stages
        ]
        for chosen in product(*ways):
            each = {stage.name: own for stage, own in zip(stages, chosen, strict=True)}
            document = {
                "copies": {name: copies for name, (_, copies) in each.items()},
                "kind": {name: kind for name, (kind, _) in each.items()},
            }
            found = rramalloc.simulate(self.network, document, hardware=self.hardware)
            used = dict.fromkeys(kinds, 0)
            for layer in found.layers:
                used[each[layer.name][0]] += layer.arrays
            if all(used[name] <= most for name, most in kinds.items()):
                yield document, found
