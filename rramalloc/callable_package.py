"""Packages that can be called: `rramalloc.report(...)` is the call, although a package has that name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def make_callable(package: str, load: Callable[[], Callable[..., Any]]) -> None:
    """Let a package be called; load: imports the function, whose arguments are then checked."""

    class CallablePackage(ModuleType):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            from rramalloc.arguments import checked

            return checked(load())(*args, **kwargs)

    sys.modules[package].__class__ = CallablePackage
