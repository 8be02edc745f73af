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
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import AfterValidator, BeforeValidator, InstanceOf, Strict, TypeAdapter, ValidationError

from rramalloc import choices
from rramalloc.choices import SHARED, UNPACKED, docstring_of, signature_of
from rramalloc.errors import RramallocError, SpecError, UnknownNameError, suggestion
from rramalloc.records import brief

Call = TypeVar("Call", bound=Callable[..., Any])
_HOMES = ("rramalloc.hardware.loader", "rramalloc.importers", "rramalloc.timing.latency_table")
"""Modules with the types of shared arguments."""


def _number(kind: type) -> BeforeValidator:
    """Take numbers of NumPy, and a whole number written with a point."""

    def taken(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise ValueError("no number")
        if isinstance(value, numbers.Integral):
            return int(value)
        return int(float(value)) if kind is int and float(value).is_integer() else float(value)

    return BeforeValidator(taken)


def _flag(value: Any) -> Any:
    """Take a flag of NumPy."""
    return bool(value) if type(value).__name__ == "bool_" else value


def _listed(value: Any) -> Any:
    """Take an array, and no text, table or generator, as a list."""
    value = value.tolist() if hasattr(value, "tolist") and hasattr(value, "ndim") else value
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise ValueError("no list")
    return list(value)


def _having(members: Collection[str]) -> AfterValidator:
    """Take an object with these members, no class."""

    def taken(value: Any) -> Any:
        if isinstance(value, type) or not all(hasattr(value, name) for name in members):
            raise ValueError("members are missing")
        return value

    return AfterValidator(taken)


_PLAIN: dict[Any, tuple[Any, str]] = {
    int: (Annotated[int, Strict(), _number(int)], "a whole number"),
    float: (Annotated[float, Strict(), _number(float)], "a number"),
    str: (Annotated[str, Strict()], "a text"),
    bool: (Annotated[bool, Strict(), BeforeValidator(_flag)], "True or False"),
    type(None): (None, "None"),
}
"""What pydantic takes for the annotations of plain values, and what that is in words."""


def _kind_of(hint: Any) -> tuple[Any, list[str]]:
    """Return what pydantic takes for an annotation, and in words what it may be."""
    origin: Any = get_origin(hint) or hint
    inner = get_args(hint)
    if hint in _PLAIN:
        return _PLAIN[hint][0], [_PLAIN[hint][1]]
    if origin is Literal:
        return hint, [repr(choice) for choice in inner]
    parts = [(part, []) if part is ... else _kind_of(part) for part in inner if not isinstance(part, list)]
    kinds = tuple(kind for kind, _ in parts)
    if origin in (Union, types.UnionType):
        return Union[kinds], [word for _, words in parts for word in words]  # noqa: UP007 - of a tuple
    if origin in (tuple, list, Sequence):
        listed = (list if origin is Sequence else origin)[kinds or (Any, ...)]
        return Annotated[listed, BeforeValidator(_listed)], ["a list"]
    if origin is Callable or getattr(origin, "_is_protocol", False):
        own = {*vars(origin), *getattr(origin, "__annotations__", {})} if origin is not Callable else set()
        members = {name for name in own if not name.startswith("_")} | ({"__call__"} & {*dir(origin)})
        named = " and ".join(sorted(members - {"__call__"}))
        return Annotated[Any, _having(members)], [f"an object with {named}" if named else "a function"]
    if not inspect.isclass(origin) or origin in (Any, object):
        return Any, []
    if issubclass(origin, Mapping):
        generic: Any = origin
        return (generic[kinds] if kinds else origin), ["a dict"]
    word = "path" if origin is os.PathLike else origin.__name__
    return Annotated[origin, cast("Any", InstanceOf)()], [f"a {word}"]


class _Kind(NamedTuple):
    """What an argument may be: choices, if there are any, and the same in words."""

    adapter: TypeAdapter[Any]
    choices: list[str]
    words: str

    @classmethod
    def of(cls, hint: Any) -> _Kind:
        """Return what an annotation allows."""
        kind, words = _kind_of(hint)
        *some, last = dict.fromkeys(words) or ("anything",)
        parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        choices = [choice for part in parts if get_origin(part) is Literal for choice in get_args(part)]
        wanted = f"{', '.join(some)} or {last}" if some else last
        return cls(TypeAdapter(kind), [] if str in parts else choices, wanted)

    def fitted(self, name: str, value: Any) -> Any:
        """Return a value as the annotation wants it. Raises SpecError, UnknownNameError."""
        with suppress(ValidationError):
            return self.adapter.validate_python(value)
        if self.choices and isinstance(value, str):
            raise UnknownNameError(name, value, self.choices)
        plain = isinstance(value, int | float | str | bytes | dict | list | tuple) or value is None
        got = brief(value) if plain else f"a {type(value).__name__}"
        raise SpecError(name, f"must be {self.words}, got {got}")


def checked(call: Call) -> Call:
    """Return the call with every argument checked against its annotation, numbers of NumPy as Python's.

    What an annotation does not say, such as the keys of a dict of options, is left to the call.
    Raises SpecError or UnknownNameError, naming the argument.
    """
    signature = signature_of(call)
    kinds: dict[str, _Kind] = {}

    @functools.wraps(call)
    def check(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            unknown = [name for name in kwargs if name not in signature.parameters]
            hint = suggestion(unknown[0], list(signature.parameters)) if unknown else ""
            raise TypeError(f"rramalloc.{call.__name__}: {error}{'; ' if hint else ''}{hint}") from None
        kinds.update(kinds or {name: _Kind.of(hint) for name, hint in _hints(call).items()})
        for name in bound.arguments.keys() & kinds.keys():
            bound.arguments[name] = kinds[name].fitted(name, bound.arguments[name])
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
