"""All importers of files, and the one guard around them: an importer is its file and a row of `IMPORTERS`.

tests/importers/test_every_importer.py damages the files of each row; those are in tests/hostile/documents.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

from rramalloc.errors import RramallocError, SpecError
from rramalloc.memory import is_short_of_memory


class Importer(NamedTuple):
    """Reader of one format.

    ending: of its files; place: of the function that returns the network, as "module:function", which takes
    the path, of .json the document and how messages call it; takes_options: whether it takes the arguments of
    `load` too.
    """

    ending: str
    place: str
    takes_options: bool = False

    def part(self, name: str = "") -> Any:
        """Return the function that reads, or another one of its module, which is imported only now."""
        module, _, function = self.place.partition(":")
        return getattr(import_module(module), name or function)


IMPORTERS = {
    "ONNX": Importer(".onnx", "rramalloc.importers.onnx.importer:read", takes_options=True),
    "layer table": Importer(".csv", "rramalloc.importers.layer_table:read_layer_table"),
    "PIMCOMP": Importer(".json", "rramalloc.importers.pimcomp_nodes:from_document"),
}
"""Importers by the name of their format. Those of .json have a `recognises(document)` in their module; a
document that none of them recognises is a network JSON."""
READ = (".json", *dict.fromkeys(row.ending for row in IMPORTERS.values() if row.ending != ".json"))
"""Endings of the files that are read."""

_UNEXPECTED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Errors of code that reads a value that it has not checked."""


@contextmanager
def guarded(where: str) -> Iterator[None]:
    """Raise SpecError in place of an error that a reader does not expect: what it reads is not of its form.

    Lack of memory stays what it is, and so does every error of this package.
    """
    try:
        yield
    except RramallocError:
        raise
    except _UNEXPECTED as error:
        if is_short_of_memory(error):
            raise
        words = f"cannot be read, its importer ends with {type(error).__name__}: {str(error)[:200]}"
        raise SpecError(where, f"{words}; look for a value out of its range") from error
