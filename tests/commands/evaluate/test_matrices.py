"""The two matrices as files: what they hold, that they are whole, and that equal runs give equal bytes."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import pandas as pd
import pytest
from commands.evaluate import worked
from commands.evaluate.drawn import random_chip, random_strategy, weight_layers
from hypothesis import given, settings
from laws.strategies import random_network, randoms

from rramalloc.commands.evaluate.evaluate import evaluate
from rramalloc.errors import SpecError
from rramalloc.schemas import json_schema

Judge = Any


def test_parquet_has_a_row_per_strategy(judge: Judge, tmp_path: Path) -> None:
    path = tmp_path / "times.parquet"
    judge(worked.WHOLE, worked.SPLIT).save_performance(path)
    frame = pd.read_parquet(path).set_index("strategy")
    assert list(frame.columns) == ["time_ns", *worked.TASKS]
    for name, times in worked.MATRIX.items():
        assert frame.loc[name].tolist() == pytest.approx([worked.TOTALS[name], *times], rel=1e-12)


def test_load_matrix_of_the_worked_example(judge: Judge, tmp_path: Path) -> None:
    path = tmp_path / "load.json"
    judge(worked.WHOLE, worked.SPLIT).save_load(path)
    document = json.loads(path.read_text())
    jsonschema.validate(document, json_schema("load-matrix"))
    assert document["tasks"] == list(worked.TASKS)
    assert document["strategies"] == ["whole", "split"]
    everything = [[1, [1, 2, 3], [1, 2, 3]]]
    rest = [[1, [1, 2], [1, 2]], [2, [3], [3]]]
    assert document["matrix"] == [
        [everything, [[1, [3, 1], [2]], [2, [2], [1, 3]]]],
        [everything, rest],
        [everything, rest],
    ]


@settings(max_examples=25)
@given(randoms)
def test_every_entry_uses_every_unit_once(tmp_path_factory: pytest.TempPathFactory, random: Random) -> None:
    """Units of a task are disjoint, and together all but those marked idle."""
    network, chip = random_network(random), random_chip(random)
    layers = weight_layers(network)
    strategies = [random_strategy(random, chip, layers, f"s{number}") for number in range(3)]
    path = tmp_path_factory.mktemp("load") / "load.json"
    evaluate(network, chip, strategies=strategies, fc="crossbar").save_load(path)
    matrix = json.loads(path.read_text())["matrix"]
    assert len(matrix) == len(layers)
    for layer, row in zip(layers, matrix, strict=True):
        for strategy, entry in zip(strategies, row, strict=True):
            parts = strategy.tasks.get(layer, strategy.tasks["*"])
            idle = {mark for part in parts for mark in part.idle}
            for place, letter, count in ((1, "C", chip.processors), (2, "D", chip.storage_units)):
                used = Counter(f"{letter}{unit}" for subtask in entry for unit in subtask[place])
                assert set(used.values()) == {1}
                assert used.keys() | {mark for mark in idle if str(mark)[0] == letter} == {
                    f"{letter}{unit}" for unit in range(1, count + 1)
                }


def test_parquet_without_pyarrow(judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluation = judge(worked.WHOLE)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SpecError, match=r"pip install '.*\[parquet\]', or choose CSV"):
        evaluation.save_performance(tmp_path / "times.parquet")
    assert list(tmp_path.iterdir()) == []
    evaluation.save_performance(tmp_path / "times.csv")
