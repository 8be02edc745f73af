"""The cheapest chip by an independent program (golden/resources.json, part size)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rramalloc
from rramalloc.network.network import Network

_EVERY: list[dict[str, Any]] = json.loads((Path(__file__).parent / "resources.json").read_text())["cases"]
CASES = [case for case in _EVERY if case["part"] == "size"]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_chip_and_candidates(case: dict[str, Any]) -> None:
    """The least cost is found and proven, and no bound of a candidate is above what it costs."""
    networks = [
        {"network": Network.from_document(own["network"], "golden"), "mapping": own["mapping"], **own["goal"]}
        for own in case["networks"]
    ]
    question = {
        name: case[name] for name in ("minimise", "stored", "hardware", "choose", "zip") if name in case
    }
    found, answer = rramalloc.size({**question, "networks": networks}), case["answer"]
    assert found.cost == pytest.approx(answer["cost"], rel=1e-9)
    assert (found.status, found.gap) == ("optimal", 0.0)
    assert (found.chip.tiles, found.chip.area_um2) == (answer["chip"]["tiles"], answer["chip"]["area_um2"])
    (chosen,) = [own.choices for own in found.candidates if own.why == "chosen"]
    assert chosen in answer["chosen"]
    for own, exact in zip(found.candidates, answer["candidates"], strict=True):
        if exact.get("infeasible"):
            assert own.why == "dearer" or own.why.startswith("infeasible")
            assert own.cost[1] is None
        else:
            assert own.cost[0] <= exact["cost"] * (1 + 1e-9)
            assert own.cost[1] is None or own.cost[1] >= exact["cost"] * (1 - 1e-9)
