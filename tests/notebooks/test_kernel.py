"""In a kernel: progress is one line that goes away, errors are their message, figures are pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from notebooks.kernel import of_cells, run

nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

BEGIN = "import rramalloc\nspec = {'networks': 'alexnet', 'arrays': [200, 300], 'methods': 'uniform'}"
CALLS = (
    "rramalloc.optimize('alexnet', 400{})",
    "rramalloc.compare('alexnet', 400, methods=['auto', 'none']{})",
    "rramalloc.pareto('alexnet', 200{})",
    "rramalloc.sweep(spec, 'swept', jobs=1{})",
)


def outputs(notebook: Any, cell: int) -> list[Any]:
    return [output for output in notebook.cells[cell].outputs if output.output_type != "stream"]


def test_progress_is_a_line_that_is_empty_in_the_end(tmp_path: Path) -> None:
    notebook = run(of_cells(BEGIN, *(call.format("") for call in CALLS)), tmp_path)
    for cell in range(1, len(CALLS) + 1):
        line, result = outputs(notebook, cell)
        assert line["data"] == {"text/plain": "", "text/html": ""}
        assert "<table" in result["data"]["text/html"]


def test_progress_can_be_turned_off_and_taken_over(tmp_path: Path) -> None:
    off = [call.format(", progress=False") for call in CALLS]
    taken = "rramalloc.optimize('alexnet', 400, on_progress=lambda best, bound: None)"
    notebook = run(of_cells(BEGIN, *off, taken), tmp_path)
    for cell in range(1, len(off) + 2):
        assert [output.output_type for output in outputs(notebook, cell)] == ["execute_result"]


def test_the_line_tells_best_and_bound(tmp_path: Path) -> None:
    told: list[str] = []

    class Watched(nbclient.NotebookClient):
        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            if msg["msg_type"] in ("display_data", "update_display_data"):
                told.append(msg["content"]["data"]["text/plain"])
            return super().process_message(msg, cell, cell_index)

    notebook = of_cells(BEGIN, CALLS[0].format(""), CALLS[1].format(""))
    Watched(notebook, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert any(line.startswith("best ") and ", bound " in line for line in told)
    assert "1/2  auto with 400 arrays" in told
    assert told[-1] == ""


def test_errors_show_their_message_and_the_lines_of_the_user(tmp_path: Path) -> None:
    own = "def study(name):\n    return rramalloc.optimize(name, 100)\nstudy('alexnet')"
    cells = (BEGIN, "x = 1\nrramalloc.load('alxnet')", own, "import sys\nsys.last_value.need", "1 / 0")
    notebook = run(of_cells(*cells), tmp_path, allow_errors=True)
    (unknown,), (budget,) = notebook.cells[1].outputs, outputs(notebook, 2)[-1:]
    message = "UnknownNameError: no file or shipped network named 'alxnet'; did you mean alexnet or"
    assert unknown["traceback"][0].startswith(message)
    assert unknown["traceback"][1:] == ["in line 2: rramalloc.load('alxnet')"]
    assert budget["ename"] == "BudgetError"
    assert budget["traceback"][1:] == [
        "in line 3: study('alexnet')",
        "in line 2 of study: return rramalloc.optimize(name, 100)",
    ]
    assert notebook.cells[3].outputs[0]["data"]["text/plain"] == "161"
    assert len(notebook.cells[4].outputs[0]["traceback"]) > 2, "other errors look as ever"


def test_charts_are_shown_once(tmp_path: Path) -> None:
    draw = "rramalloc.simulate('alexnet', {}).plot.timeline()"
    notebook = run(of_cells(BEGIN, draw), tmp_path)
    (picture,) = outputs(notebook, 1)
    assert set(picture["data"]) == {"image/svg+xml", "text/plain"}
