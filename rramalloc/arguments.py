"""Arguments of the public calls, checked against their annotations before anything runs."""

from __future__ import annotations

import functools
import inspect
import numbers
import os
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from rramalloc import choices
from rramalloc.choices import SHARED, UNPACKED, docstring_of, signature_of
from rramalloc.errors import SpecError, UnknownNameError, suggestion
from rramalloc.records import brief

Call = TypeVar("Call", bound=Callable[..., Any])
_MOST_BITS = 1024  # of an integer of NumPy or a caller: larger ones take long to print in a message
_HOMES = ("rramalloc.hardware.loader", "rramalloc.importers", "rramalloc.timing.latency_table")
"""Modules with the types of shared arguments."""
_PLAIN = {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}


def checked(call: Call) -> Call:
    """Return the call with every argument checked against its annotation, numbers of NumPy as Python's.

    What an annotation does not say, such as the keys of a dict of options, is left to the call.
    Raises SpecError or UnknownNameError, naming the argument.
    """
    signature = signature_of(call)
    hints: dict[str, Any] = {}

    @functools.wraps(call)
    def check(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            unknown = [name for name in kwargs if name not in signature.parameters]
            hint = suggestion(unknown[0], list(signature.parameters)) if unknown else ""
            raise TypeError(f"rramalloc.{call.__name__}: {error}{'; ' if hint else ''}{hint}") from None
        hints.update(hints or _hints(call))
        for name, value in bound.arguments.items():
            if name in hints:
                bound.arguments[name] = _fitted(name, value, hints[name])
        return call(*bound.args, **bound.kwargs)

    check.__signature__ = signature  # type: ignore[attr-defined]
    for annotation in call.__annotations__.values():
        if (shared := UNPACKED.fullmatch(str(annotation))) and call.__doc__:
            check.__doc__ = docstring_of(call.__doc__, shared[1])
    return cast("Call", check)


def _hints(call: Callable[..., Any]) -> dict[str, Any]:
    """Return the type of every argument, without those of a library that is not installed."""
    hints: dict[str, Any] = {}
    for name, annotation in call.__annotations__.items():
        if shared := UNPACKED.fullmatch(str(annotation)):
            kinds = {name: value for home in _HOMES for name, value in vars(import_module(home)).items()}
            hints |= get_type_hints(SHARED[shared[1]][0], localns=kinds | vars(choices))
            continue
        one = types.SimpleNamespace(__annotations__={name: annotation})
        with suppress(ImportError):  # the call itself says that the library is missing
            try:
                hints |= get_type_hints(one, globalns=call.__globals__)
            except NameError as error:  # a library that the module imports for type checkers only
                library = {str(error.name): import_module(str(error.name))}
                hints |= get_type_hints(one, globalns=call.__globals__ | library)
    return hints


def _fitted(name: str, value: Any, hint: Any) -> Any:
    """Return the value as the annotation wants it."""
    fits, taken = _fit(value, hint)
    if fits:
        return taken
    words = [choice for part in _parts(hint) for choice in _choices(part)]
    if words and isinstance(value, str) and str not in _parts(hint):
        raise UnknownNameError(name, value, words)
    raise SpecError(name, f"must be {_wanted(hint)}, got {_got(value)}")


def _fit(value: Any, hint: Any) -> tuple[bool, Any]:
    """Return (whether a value matches an annotation, the value as a type of Python)."""
    for part in _parts(hint):
        fits, taken = _fit_one(value, part)
        if fits:
            return True, taken
    return False, value


def _fit_one(value: Any, part: Any) -> tuple[bool, Any]:
    origin, inner = get_origin(part) or part, get_args(part)
    if part is Any:
        return True, value
    if part in (None, type(None)):
        return value is None, None
    if origin is Literal:
        return isinstance(value, str) and value in inner, value
    if origin is bool:
        return (True, bool(value)) if _is_flag(value) else (False, value)
    if origin in (int, float):
        return _number(value, origin)
    if origin is str:
        return isinstance(value, str), value
    if origin is os.PathLike:
        return isinstance(value, os.PathLike) and isinstance(os.fspath(value), str), value
    if origin in (tuple, Sequence, list):
        return _sequence(value, origin, inner)
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return _mapping(value, inner)
    if origin is Callable:
        return callable(value) and not isinstance(value, type), value
    if getattr(origin, "_is_protocol", False):
        return not isinstance(value, type) and all(hasattr(value, name) for name in _members(origin)), value
    if inspect.isclass(origin) and origin is not object:
        return isinstance(value, origin), value
    return True, value


def _members(protocol: Any) -> set[str]:
    """Return the members that a value of a protocol has."""
    own = {*vars(protocol), *getattr(protocol, "__annotations__", {})}
    return {name for name in own if not name.startswith("_") or name == "__call__"}


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ == "bool_"


def _number(value: Any, kind: type) -> tuple[bool, Any]:
    if _is_flag(value) or not isinstance(value, numbers.Real):
        return False, value
    if isinstance(value, numbers.Integral):
        return int(value).bit_length() <= _MOST_BITS, int(value)
    if kind is int:
        whole = float(value).is_integer()
        return whole, int(float(value)) if whole else value
    return True, float(value)


def _sequence(value: Any, origin: Any, inner: tuple[Any, ...]) -> tuple[bool, Any]:
    if hasattr(value, "tolist") and hasattr(value, "ndim"):
        value = value.tolist()
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        return False, value
    inner = inner or (Any, ...)
    kinds = [inner[0]] * len(value) if origin is not tuple or inner[-1:] == (...,) else list(inner)
    if len(kinds) != len(value):
        return False, value
    each = [_fit(item, kind) for item, kind in zip(value, kinds, strict=True)]
    taken = [item for _, item in each]
    return all(fits for fits, _ in each), tuple(taken) if origin is tuple else taken


def _mapping(value: Any, inner: tuple[Any, ...]) -> tuple[bool, Any]:
    if not isinstance(value, Mapping):
        return False, value
    if not inner:
        return True, value
    pairs = [(_fit(key, inner[0]), _fit(item, inner[1])) for key, item in value.items()]
    return all(key[0] and item[0] for key, item in pairs), {key[1]: item[1] for key, item in pairs}


def _parts(hint: Any) -> Collection[Any]:
    """Return the members of a union, or the annotation alone."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _choices(part: Any) -> tuple[str, ...]:
    return get_args(part) if get_origin(part) is Literal else ()


def _wanted(hint: Any) -> str:
    words = []
    for part in _parts(hint):
        origin = get_origin(part) or part
        if part is type(None):
            words.append("None")
        elif origin is Literal:
            words += [repr(choice) for choice in get_args(part)]
        elif origin is os.PathLike:
            words.append("a path")
        elif origin in (tuple, Sequence, list):
            words.append("a list")
        elif getattr(origin, "_is_protocol", False) and (named := _members(origin) - {"__call__"}):
            words.append(f"an object with {' and '.join(sorted(named))}")
        elif origin is Callable or getattr(origin, "_is_protocol", False):
            words.append("a function")
        elif inspect.isclass(origin) and issubclass(origin, Mapping):
            words.append("a dict")
        else:
            words.append(_PLAIN.get(origin, f"a {getattr(origin, '__name__', origin)}"))
    words = list(dict.fromkeys(words))
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _got(value: Any) -> str:
    plain = isinstance(value, int | float | str | bytes | dict | list | tuple) or value is None
    return brief(value) if plain else f"a {type(value).__name__}"
