"""Runs notebooks in a kernel, as a reader would.

python tests/notebooks/kernel.py executes the example notebooks anew and keeps their outputs.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
_LIMIT_S = 600


def run(
    notebook: Any, folder: str | os.PathLike[str], *, allow_errors: bool = False, kernel: Any = None
) -> Any:
    """The notebook with its outputs, executed in `folder`; an error ends it unless errors are allowed.

    kernel: manager of one that runs, which forgets all names first; None: the notebook has its own.
    """
    from nbclient import NotebookClient

    place = {"metadata": {"path": os.fspath(folder)}}
    if kernel is not None:
        notebook.cells[:0] = of_cells(f"%reset -f\n%cd -q {os.fspath(folder)}").cells
    client = NotebookClient(
        notebook, kernel, timeout=_LIMIT_S, kernel_name="python3", allow_errors=allow_errors, resources=place
    )
    executed = client.execute()
    if kernel is not None:
        del executed.cells[0]
    return executed


def of_cells(*sources: str) -> Any:
    """A notebook of these cells."""
    from nbformat.v4 import new_code_cell, new_notebook

    return new_notebook(cells=[new_code_cell(source) for source in sources])


def read(path: str | os.PathLike[str]) -> Any:
    """A notebook from its file."""
    import nbformat

    return nbformat.read(path, as_version=4)


def tidy(notebook: Any) -> Any:
    """Leave out what depends on the run: times, and lines of progress, which are empty in the end."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if any(output.get("data", {"": "."}).values())]
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def refresh() -> None:
    """Execute the example notebooks and keep what they show."""
    import nbformat

    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(tidy(run(read(path), folder)), path)


if __name__ == "__main__":
    refresh()
