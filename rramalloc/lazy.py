"""Public names and packages whose code is imported when it is used: `import rramalloc` stays instant."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def homes(file: str) -> dict[str, str]:
    """Module of every name that a file exports to type checkers: `from MODULE import NAME as NAME`."""
    with open(file, encoding="utf-8") as source:
        imports = [node for node in ast.walk(ast.parse(source.read())) if isinstance(node, ast.ImportFrom)]
    exports = ((node.module, name) for node in imports for name in node.names if name.asname == name.name)
    return {name.name: module for module, name in exports if module is not None}


def make_callable(package: str, module: str) -> None:
    """Let a package be called: `rramalloc.report(...)` is the function of that name in a module of it."""

    class CallablePackage(ModuleType):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            from rramalloc.arguments import checked

            call = getattr(import_module(f"{package}.{module}"), package.rpartition(".")[2])
            return checked(call)(*args, **kwargs)

    sys.modules[package].__class__ = CallablePackage
