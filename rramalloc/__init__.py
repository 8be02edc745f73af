"""Crossbar allocation for memristor (RRAM) CNN accelerators: exact timing, best copies, proven bounds.

>>> import rramalloc
>>> allocation = rramalloc.optimize("vgg16", arrays=1024)
>>> allocation.makespan
4009

`__init__.pyi` has the names for type checkers and editors; `docs/generate.py` writes it.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Import a public name where it is used, so that `import rramalloc` stays instant."""
    from rramalloc.public import public

    return globals().setdefault(name, public(name))


def __dir__() -> list[str]:
    """Return the public names."""
    from rramalloc.public import homes

    return [*homes()]
