"""The two matrices as files: what they hold, that they are whole, and that equal runs give equal bytes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd
import pytest
from commands.evaluate import worked

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


def test_parquet_without_pyarrow(judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluation = judge(worked.WHOLE)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SpecError, match=r"pip install '.*\[parquet\]', or choose CSV"):
        evaluation.save_performance(tmp_path / "times.parquet")
    assert list(tmp_path.iterdir()) == []
    evaluation.save_performance(tmp_path / "times.csv")
