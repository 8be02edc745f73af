"""Every tool that an allocation can be exported to, by name.

The modules of `targets`, and the entry points `rramalloc.exports` of other packages: each names a function
from a `Subject` to a `Bundle`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from rramalloc.commands.export.bundle import Bundle, ExportedFile, Remark
from rramalloc.commands.export.subject import Subject
from rramalloc.errors import UnknownNameError
from rramalloc.lazy import entry_point, foreign, load_foreign, plugin_errors

ExportTarget = Callable[[Subject], Bundle]
GROUP = "rramalloc.exports"
"""Entry points in which other packages name their exports."""

_OWN = Path(__file__).parent / "targets"


def target_names() -> tuple[str, ...]:
    """Return the names of all targets, sorted: those of this package, then those of others."""
    shipped = sorted(path.stem for path in _OWN.glob("[a-z]*.py"))
    return (*shipped, *sorted(set(foreign(GROUP)) - set(shipped)))


def target_function(given: str | ExportTarget) -> ExportTarget:
    """Return the function that makes the files of a target; its module is imported only now.

    given: the name of the target, or a function of the caller's. Raises UnknownNameError, PluginError.
    """
    if not isinstance(given, str):
        return _checked(given, f"export target {target_name(given)!r}, which was given as a function,")
    name = given
    if name not in target_names():
        raise UnknownNameError("export target", name, target_names())
    if (_OWN / f"{name}.py").exists():
        target: ExportTarget = import_module(f"rramalloc.commands.export.targets.{name}").export
        return target
    return _checked(load_foreign(GROUP, name, "export target"), entry_point(GROUP, name, "export target"))


def target_name(given: str | ExportTarget) -> str:
    """Return the name of a target, or that of a function."""
    if isinstance(given, str):
        return given
    function = getattr(given, "func", given)  # that of a functools.partial
    return str(getattr(function, "__name__", type(function).__name__))


def _checked(target: ExportTarget, what: str) -> ExportTarget:
    """Return a target from outside this package with its bundle checked; what: whose it is, in words."""

    def made(subject: Subject) -> Bundle:
        with plugin_errors(what):
            bundle: object = target(subject)
            if not isinstance(bundle, Bundle):
                raise TypeError(f"it returned a {type(bundle).__name__}, a Bundle is needed")
            if not bundle.files or not all(isinstance(file, ExportedFile) for file in bundle.files):
                raise TypeError("its files must be ExportedFile, one or more")
            if not all(isinstance(item, Remark) for item in bundle.remarks):
                raise TypeError("its remarks must be Remark")
            if len({file.name for file in bundle.files}) < len(bundle.files):
                raise ValueError("two of its files have the same name")
            return bundle

    return made
