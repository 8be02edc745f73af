"""Files that ship beside the code: networks, the pages of the documentation, examples to start from."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from rramalloc.errors import UnknownNameError
from rramalloc.files import TOML_LIMIT_BYTES, read_text


@cache
def shipped_folder(name: str) -> Path:
    """Return a folder of shipped files: inside an installed package, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    installed = package / name
    return installed if installed.is_dir() else package.parent / name


def example_names() -> tuple[str, ...]:
    """Return the file names of all examples, sorted."""
    folder = shipped_folder("docs") / "examples"
    return tuple(sorted(path.name for path in folder.iterdir() if path.is_file()))


def example_text(name: str) -> str:
    """Return the text of an example; its name may lack the ending. Raises UnknownNameError."""
    for known in example_names():
        if name in (known, Path(known).stem):
            return read_text(shipped_folder("docs") / "examples" / known, TOML_LIMIT_BYTES)
    raise UnknownNameError("example", name, example_names())
