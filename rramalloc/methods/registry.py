"""All methods by name: each file of this folder declares its own, `VARIABLE = Method("name", ...)`.

The names are read from the files' text: a method's libraries are imported when it is used, not before. Other
packages name a Method, or a function that solves, as an entry point of the group `rramalloc.methods`.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from rramalloc.errors import UnknownNameError
from rramalloc.lazy import foreign, load_foreign

if TYPE_CHECKING:
    from rramalloc.methods.method import Method

GROUP = "rramalloc.methods"
_DECLARED = re.compile(r'^(\w+) = Method\(\s*"([\w-]+)"', re.MULTILINE)


def declared(folder: Path) -> dict[str, str]:
    """Where each method of a folder stands, as "module:variable"; `auto` first, the others by name."""
    homes = {
        name: f"{__package__}.{path.stem}:{variable}"
        for path in folder.glob("*.py")
        for variable, name in _DECLARED.findall(path.read_text(encoding="utf-8"))
    }
    return {name: homes[name] for name in sorted(homes, key=lambda name: (name != "auto", name))}


METHODS = declared(Path(__file__).parent)
"""The methods of this package."""


def method_names() -> tuple[str, ...]:
    """Names of all methods, the default one first, those of other packages last."""
    return (*METHODS, *sorted(set(foreign(GROUP)) - set(METHODS)))


def method_named(name: str) -> Method:
    """The method of that name; its libraries are imported only now. Raises UnknownNameError, SpecError."""
    if name in METHODS:
        module, _, variable = METHODS[name].partition(":")
        own: Method = getattr(import_module(module), variable)
        return own
    if name not in foreign(GROUP):
        raise UnknownNameError("method", name, method_names())
    from rramalloc.methods.method import Method

    method = load_foreign(GROUP, name, "method")
    return method if isinstance(method, Method) else Method(name, method, minimises="", compared=False)
