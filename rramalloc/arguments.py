"""Arguments of the public calls, checked by pydantic against their annotations before anything runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from types import GenericAlias
from typing import Any, TypeVar, cast, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rramalloc import choices
from rramalloc.choices import SHARED, UNPACKED, docstring_of, signature_of
from rramalloc.errors import RramallocError, SpecError, UnknownNameError, suggestion
from rramalloc.records import brief

Call = TypeVar("Call", bound=Callable[..., Any])
_HOMES = ("rramalloc.hardware.loader", "rramalloc.importers", "rramalloc.timing.latency_table")
"""Modules with the types of shared arguments."""
_STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True)
_WANTED = "Input should be "  # begin of pydantic's words for what a value may be


def _plain(value: Any) -> Any:
    """Return numbers of NumPy and whole floats as numbers of Python, arrays and lists as tuples."""
    if hasattr(value, "tolist") and not isinstance(value, type):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _fitted(name: str, hint: Any, kind: TypeAdapter[tuple[Any]], value: Any) -> Any:
    """Return an argument as its annotation wants it. Raises SpecError, UnknownNameError."""
    with suppress(ValidationError):
        return kind.validate_python((value,))[0]
    try:
        return kind.validate_python((_plain(value),))[0]
    except ValidationError as error:
        reasons = [fault["msg"] for fault in error.errors(include_url=False, include_context=False)]
    literals = [choice for part in (hint, *get_args(hint)) for choice in get_args(part)]
    if isinstance(value, str) and (known := [choice for choice in literals if isinstance(choice, str)]):
        raise UnknownNameError(name, value, known)
    wanted = [reason.removeprefix(_WANTED) for reason in reasons if reason.startswith(_WANTED)]
    plain = isinstance(value, int | float | str | bytes | dict | list | tuple) or value is None
    got = brief(value) if plain else f"a {type(value).__name__}"
    raise SpecError(name, f"must be {' or '.join(dict.fromkeys(wanted or reasons))}, got {got}")


def checked(call: Call) -> Call:
    """Return the call with every argument checked against its annotation, numbers of NumPy as Python's.

    What an annotation does not say, such as the keys of a dict of options, is left to the call.
    Raises SpecError or UnknownNameError, naming the argument.
    """
    signature = signature_of(call)

    @functools.cache
    def kinds() -> dict[str, tuple[Any, TypeAdapter[tuple[Any]]]]:
        """Return the annotation of every argument, and what checks it: in a tuple, so that all take a config.

        Records refuse a config beside their own.
        """
        return {
            name: (hint, TypeAdapter(cast("Any", GenericAlias(tuple, (hint,))), config=_STRICT))
            for name, hint in _hints(call).items()
            if name in signature.parameters
        }

    @functools.wraps(call)
    def check(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            unknown = [name for name in kwargs if name not in signature.parameters]
            hint = suggestion(unknown[0], list(signature.parameters)) if unknown else ""
            raise TypeError(f"rramalloc.{call.__name__}: {error}{'; ' if hint else ''}{hint}") from None
        for name in bound.arguments.keys() & kinds().keys():
            bound.arguments[name] = _fitted(name, *kinds()[name], bound.arguments[name])
        try:
            return call(*bound.args, **bound.kwargs)
        except RramallocError as error:
            error.in_python = True
            raise

    check.__signature__ = signature  # type: ignore[attr-defined]
    for annotation in call.__annotations__.values():
        if (shared := UNPACKED.fullmatch(str(annotation))) and call.__doc__:
            check.__doc__ = docstring_of(call.__doc__, shared[1])
    return cast("Call", check)


def _hints(call: Callable[..., Any]) -> dict[str, Any]:
    """Return the type of every argument, also of those that it shares with other calls."""
    hints = get_type_hints(call)
    for annotation in call.__annotations__.values():
        if shared := UNPACKED.fullmatch(str(annotation)):
            kinds = {name: value for home in _HOMES for name, value in vars(import_module(home)).items()}
            hints |= get_type_hints(SHARED[shared[1]][0], localns=kinds | vars(choices))
    return hints
