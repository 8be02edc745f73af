"""Every tool that an allocation can be exported to, by name.

The modules of `targets`, and the entry points `rramalloc.exports` of other packages: each names a function
from a `Subject` to a `Bundle`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from rramalloc.commands.export.bundle import Bundle
from rramalloc.commands.export.subject import Subject
from rramalloc.errors import UnknownNameError
from rramalloc.lazy import entry_point, foreign, load_foreign, plugin_errors

Target = Callable[[Subject], Bundle]
GROUP = "rramalloc.exports"
"""Entry points in which other packages name their exports."""

_OWN = Path(__file__).parent / "targets"


def target_names() -> tuple[str, ...]:
    """Return the names of all targets, sorted; own ones first."""
    own = sorted(path.stem for path in _OWN.glob("[a-z]*.py"))
    return (*own, *sorted(set(foreign(GROUP)) - set(own)))


def target_function(name: str) -> Target:
    """Return what makes the files of that target; imported only now. Raises UnknownNameError, PluginError."""
    if name not in target_names():
        raise UnknownNameError("export target", name, target_names())
    if (_OWN / f"{name}.py").exists():
        own: Target = import_module(f"rramalloc.commands.export.targets.{name}").export
        return own
    other: Target = load_foreign(GROUP, name, "export target")

    def made(subject: Subject) -> Bundle:
        with plugin_errors(entry_point(GROUP, name, "export target")):
            bundle: object = other(subject)
            if not isinstance(bundle, Bundle):
                raise TypeError(f"it returned a {type(bundle).__name__}, a Bundle is needed")
            return bundle

    return made
