"""In a kernel: progress is one line that goes away, errors are their message, figures are pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

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
WITH_PROGRESS = [call.format("") for call in CALLS]
WITHOUT = [call.replace("swept", "again").format(", progress=False") for call in CALLS]
TAKEN_OVER = "rramalloc.optimize('alexnet', 400, on_progress=lambda best, bound: None)"
CHART = "rramalloc.simulate('alexnet', {}).plot.timeline()"


class Cells(NamedTuple):
    """Outputs of the cells of one notebook by their source, and the texts that each showed meanwhile."""

    outputs: dict[str, list[Any]]
    shown: dict[str, list[str]]


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    sources = [BEGIN, *WITH_PROGRESS, *WITHOUT, TAKEN_OVER, CHART]
    shown: dict[str, list[str]] = {source: [] for source in sources}

    class Watched(nbclient.NotebookClient):
        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            if msg["msg_type"] in ("display_data", "update_display_data"):
                shown[sources[cell_index]].append(msg["content"]["data"]["text/plain"])
            return super().process_message(msg, cell, cell_index)

    notebook = run(of_cells(*sources), tmp_path_factory.mktemp("notebook"), client=Watched)
    return Cells({source: outputs(notebook, number) for number, source in enumerate(sources)}, shown)


def outputs(notebook: Any, cell: int) -> list[Any]:
    return [output for output in notebook.cells[cell].outputs if output.output_type != "stream"]


@pytest.mark.parametrize("call", WITH_PROGRESS)
def test_progress_is_a_line_that_is_empty_in_the_end(call: str, cells: Cells) -> None:
    line, result = cells.outputs[call]
    assert line["data"] == {"text/plain": "", "text/html": ""}
    assert "<table" in result["data"]["text/html"]


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
