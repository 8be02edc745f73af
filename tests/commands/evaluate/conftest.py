"""The worked example as objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from commands.evaluate import worked

from rramalloc.commands.evaluate.evaluate import evaluate
from rramalloc.commands.evaluate.evaluation import Evaluation
from rramalloc.commands.evaluate.strategy import Strategy
from rramalloc.hardware.performance import ChipPerformance
from rramalloc.network.network import Network

Evaluate = Callable[..., Evaluation]


@pytest.fixture
def network() -> Network:
    return Network.build("worked", worked.NETWORK["nodes"])


@pytest.fixture
def judge(network: Network) -> Evaluate:
    """Evaluate documents of strategies on the worked network; chip fields may be changed."""

    def call(*documents: dict[str, Any], chip: dict[str, Any] | None = None, **options: Any) -> Evaluation:
        parameters = ChipPerformance(**(worked.CHIP | (chip or {})))
        strategies = [Strategy.model_validate(document) for document in documents]
        options.setdefault("fc", "crossbar")
        return evaluate(network, parameters, strategies=strategies, **options)

    return call
