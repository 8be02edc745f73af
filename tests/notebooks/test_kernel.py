"""In a kernel: progress is one line that goes away, errors are their message, figures are pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from notebooks.kernel import of_cells, run

BEGIN = "import rramalloc\nspec = {'networks': 'alexnet', 'arrays': [200, 300], 'methods': 'uniform'}"
CALLS = (
    "rramalloc.optimize('squeezenet', 432, work=5)",
    "rramalloc.compare('alexnet', 400, methods=['auto', 'none'], work=5)",
    "rramalloc.pareto('squeezenet', 320, work=5)",
    "rramalloc.sweep(spec, 'swept', jobs=1)",
)


def outputs(notebook: Any, cell: int) -> list[Any]:
    return [output for output in notebook.cells[cell].outputs if output.output_type != "stream"]


def test_progress_is_a_line_that_is_empty_in_the_end(kernel: Any, tmp_path: Path) -> None:
    notebook = run(of_cells(BEGIN, *CALLS), tmp_path, kernel=kernel)
    for number, call in enumerate(CALLS, 1):
        line, result = outputs(notebook, number)
        assert line["data"] == {"text/plain": "", "text/html": ""}, call
        assert "<table" in result["data"]["text/html"], call


@pytest.mark.quick
def test_errors_show_their_message_and_the_lines_of_the_user(kernel: Any, tmp_path: Path) -> None:
    own = "def study(name):\n    return rramalloc.optimize(name, 100)\nstudy('alexnet')"
    cells = (BEGIN, "x = 1\nrramalloc.load('alxnet')", own, "import sys\nsys.last_value.need", "1 / 0")
    notebook = run(of_cells(*cells), tmp_path, allow_errors=True, kernel=kernel)
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
