"""Chips and strategies drawn at random."""

from __future__ import annotations

from random import Random
from typing import Any

from rramalloc.commands.evaluate.strategy import Strategy
from rramalloc.hardware.performance import ChipPerformance
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Linear

ROOMY = {"unit_bytes": 10**9}


def weight_layers(network: Network) -> list[str]:
    """Names of the layers that a strategy has tasks for, classifiers among them."""
    return [node.name for node in network.nodes if isinstance(node, Conv | Linear)]


def shares_of(random: Random, count: int) -> list[float]:
    """Shares that sum to 1, in hundredths."""
    cuts = sorted(random.sample(range(1, 100), count - 1))
    return [(b - a) / 100 for a, b in zip([0, *cuts], [*cuts, 100], strict=True)]


def random_strategy(random: Random, chip: ChipPerformance, layers: list[str], name: str) -> Strategy:
    """Any division of the units, some of them idle, with or without shares."""

    def entries() -> tuple[list[dict[str, Any]], list[str]]:
        compute = random.sample(range(1, chip.processors + 1), chip.processors)
        storage = random.sample(range(1, chip.storage_units + 1), chip.storage_units)
        count = random.randint(1, min(len(compute), len(storage)))
        parts: list[dict[str, Any]] = [
            {"compute": [compute.pop()], "storage": [storage.pop()]} for _ in range(count)
        ]
        idle = []
        for kind, letter, units in (("compute", "C", compute), ("storage", "D", storage)):
            for unit in units:
                if random.random() < 0.2:
                    idle.append(f"{letter}{unit}")
                else:
                    random.choice(parts)[kind].append(unit)
        if random.random() < 0.5:
            for part, share in zip(parts, shares_of(random, count), strict=True):
                part["share"] = share
        return [*parts, {"idle": idle}] if idle else parts, idle

    tasks = {layer: entries()[0] for layer in layers if random.random() < 0.7}
    return Strategy.model_validate({"name": name, "tasks": {"*": entries()[0]} | tasks})


def random_chip(random: Random) -> ChipPerformance:
    return ChipPerformance(
        processors=random.randint(1, 6),
        storage_units=random.randint(1, 6),
        unit_bytes=10**9,
        bandwidth_in_gb_s=random.uniform(0.1, 9),
        bandwidth_out_gb_s=random.uniform(0.1, 9),
        ns_per_byte={"default": random.uniform(0, 3), "linear": random.uniform(0, 3)},
    )
