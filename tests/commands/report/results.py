"""Small results of every kind that a page shows, and names that try to be more than text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from commands.place.machines import SMALL_TOML

import rramalloc
from rramalloc.files import to_json
from rramalloc.hardware.loader import load_hardware

HOSTILE = (
    "<script>window.hit = 1</script>",
    "</script><img src=x onerror='window.hit = 2'>",
    "{{ 7*7 }} {% raw %} ${8*8}",
    "@layer{safe} $index @{x}",
    "\"double\" 'single' \\ &amp; &lt;b&gt;",
    "$$x^2$$ \\(y\\) \\[z\\]",
    "<!--<script>",
    "=1+1",
    "line\u2028end\u202e\x07",
)
KINDS = ("allocation", "simulation", "comparison", "pareto", "placement", "inspection", "verification")


def write_network(path: Path, names: tuple[str, ...], name: str = "tiny", size: int = 16) -> Path:
    """A chain of convolutions with these names."""
    nodes: list[dict[str, Any]] = [{"name": "input", "op": "input", "shape": [3, size, size]}]
    for layer in names:
        nodes.append(
            {
                "name": layer,
                "op": "conv",
                "inputs": [nodes[-1]["name"]],
                "out_channels": 16,
                "kernel": 3,
                "pads": 1,
            }
        )
    path.write_text(json.dumps({"format": "rramalloc-network/1", "name": name, "nodes": nodes}))
    return path


def write_all(folder: Path, names: tuple[str, ...], name: str = "tiny") -> dict[str, Path]:
    """One file of every kind, and the network, by kind."""
    network = write_network(folder / "network.json", names, name)
    machine = folder / "small.toml"
    machine.write_text(SMALL_TOML)
    hardware = load_hardware(machine)
    least = rramalloc.inspect(network, hardware=hardware).minimum
    allocation = rramalloc.optimize(network, arrays=min(72, 2 * least), hardware=hardware, work=1)
    found = {
        "allocation": allocation,
        "simulation": rramalloc.simulate(network, allocation),
        "comparison": rramalloc.compare(
            network,
            ["x1.5", "x2"],
            hardware=hardware,
            methods=["auto", "uniform", "genetic"],
            seeds=2,
            work=1,
        ),
        "pareto": rramalloc.pareto(network, 2 * least, hardware=hardware, work=5, baselines=["uniform"]),
        "placement": rramalloc.place(network, allocation, hardware=hardware),
        "inspection": rramalloc.inspect(network, hardware=hardware),
        "verification": rramalloc.verify(network, allocation, hardware=hardware),
    }
    paths = {"network": network}
    for kind, result in found.items():
        paths[kind] = folder / f"{kind}.json"
        paths[kind].write_text(to_json(result.to_dict()))
    return paths
