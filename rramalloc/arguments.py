"""Arguments of the public calls, checked by pydantic against their annotations before anything runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from types import GenericAlias, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rramalloc import choices
from rramalloc.choices import SHARED, UNPACKED, docstring_of, signature_of
from rramalloc.errors import RramallocError, SpecError, UnknownNameError, suggestion
from rramalloc.log import LOGGER
from rramalloc.records import brief

Call = TypeVar("Call", bound=Callable[..., Any])
_HOMES = ("rramalloc.hardware.loader", "rramalloc.importers", "rramalloc.timing.latency_table")
"""Modules with the types of shared arguments."""
_STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True)
_NOUNS = {"str": "text", "int": "whole number", "float": "number", "PathLike": "path", "Mapping": "dict"}
_NOUNS |= {"Sequence": "list", "Callable": "function", "Mapped": "configuration of aihwkit"}
"""What messages call a type, by its name; the others have names of their own."""


def _plain(value: Any) -> Any:
    """Return numbers of NumPy and whole floats as numbers of Python, arrays and lists as tuples."""
    if hasattr(value, "tolist") and not isinstance(value, type):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _depth(value: Any) -> int:
    """Return how deep dicts and lists are nested. Raises RecursionError beyond what any call can read."""
    inner = value.values() if isinstance(value, Mapping) else value
    return 1 + max(map(_depth, inner), default=0) if isinstance(value, Mapping | list | tuple) else 0


def _adapter(hint: Any) -> TypeAdapter[tuple[Any]]:
    """Return what checks an annotation: in a tuple, as records refuse a config beside their own."""
    return TypeAdapter(cast("Any", GenericAlias(tuple, (hint,))), config=_STRICT)


def _fitted(name: str, hint: Any, kind: TypeAdapter[tuple[Any]], value: Any) -> Any:
    """Return an argument as its annotation wants it. Raises SpecError, UnknownNameError."""
    try:
        _depth(value)
    except RecursionError:
        raise SpecError(name, "is nested too deeply, or holds itself") from None
    with suppress(ValidationError):
        return kind.validate_python((value,))[0]
    with suppress(ValidationError):
        return kind.validate_python((_plain(value),))[0]
    name, hint, value = _refused(name, hint, value)
    literals = [choice for part in (hint, *get_args(hint)) for choice in get_args(part)]
    if isinstance(value, str) and (known := [choice for choice in literals if isinstance(choice, str)]):
        raise UnknownNameError(name, value, known)
    is_plain = isinstance(value, int | float | str | bytes | dict | list | tuple) or value is None
    got = brief(value) if is_plain else f"a {type(value).__name__}"
    raise SpecError(name, f"must be {_forms(hint)}, got {got}")


def _parts(hint: Any) -> tuple[Any, ...]:
    """Return the alternatives of an annotation without None."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return tuple(part for part in parts if part is not NoneType)


def _refused(name: str, hint: Any, value: Any) -> tuple[str, Any, Any]:
    """Return the name, the annotation and the value of the part that is wrong: of an entry if one is."""
    is_dict = isinstance(value, Mapping)
    container = Mapping if is_dict else Sequence
    inner = tuple(get_args(part)[-1] for part in _parts(hint) if get_origin(part) is container)
    if not inner or not (is_dict or isinstance(value, list | tuple)):
        return name, hint, value
    inner_hint: Any = Union[inner]  # noqa: UP007 - of a tuple
    for key, entry in value.items() if is_dict else enumerate(value):
        if is_dict and not isinstance(key, str):
            return f"{name}: key {brief(key)}", str, key
        try:
            _adapter(inner_hint).validate_python((_plain(entry),))
        except ValidationError:
            return _refused(f"{name}[{brief(key)}]", inner_hint, entry)
    return name, hint, value


def _forms(hint: Any, ending: str = "") -> str:
    """Return in words what an annotation allows, "a Hardware, a dict or a path"; ending: of a plural."""
    words = list[str]()
    for part in _parts(hint):
        origin = get_origin(part) or part
        inner = get_args(part)
        name = getattr(origin, "__name__", "object")
        noun = f"{_NOUNS.get(name, name)}{ending}"
        article = "" if ending else "an " if noun[0] in "AEIOaeio" else "a "
        if origin is Literal:
            words += map(repr, inner)
            continue
        if origin is tuple:
            noun += f" of {len(inner)} {_forms(inner[0], 's')}"
        elif origin in (Mapping, Sequence) and not ending and inner[-1] not in (Any, object):
            noun += f" of {_forms(inner[-1], 's')}"
        words.append(f"{article}{noun}")
    return " or ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def checked(call: Call) -> Call:
    """Return the call with every argument checked against its annotation, numbers of NumPy as Python's.

    What an annotation does not say, such as the keys of a dict of options, is left to the call.
    Raises SpecError or UnknownNameError, naming the argument.
    """
    signature = signature_of(call)

    @functools.cache
    def kinds() -> dict[str, tuple[Any, TypeAdapter[tuple[Any]]]]:
        """Return the annotation of every argument, and what checks it."""
        return {
            name: (hint, _adapter(hint))
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
            result = call(*bound.args, **bound.kwargs)
        except RramallocError as error:
            error.in_python = True
            raise
        for text in getattr(result, "warnings", ()):
            LOGGER.warning("%s: %s", call.__name__, text)
        return result

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
