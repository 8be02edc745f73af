"""Values that nobody changes: the dicts and lists in a result."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, NoReturn, Self, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")


def _refuse(_: object, *__: object, **___: object) -> NoReturn:
    """Raise TypeError."""
    raise TypeError("results cannot be changed: change a copy, dict(...) or list(...)")


class _Frozen:
    """Base of a dict or list that is its own copy, as its items cannot be changed either."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[Any]]:
        return type(self), (dict(self) if isinstance(self, dict) else list(cast("list[Any]", self)),)


class FrozenDict(_Frozen, dict[K, V]):
    """A dict that cannot be changed; in all else it is one: it compares, prints, pickles and is JSON."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


class FrozenList(_Frozen, list[V]):
    """A list that cannot be changed, and a list in all else, where a JSON document holds one."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse


def frozen(value: Any) -> Any:
    """Return a value whose dicts, lists and sets, and those in them, cannot be changed."""
    if value is None or isinstance(value, str | int | float | FrozenDict | FrozenList):
        return value
    if isinstance(value, Mapping):
        return FrozenDict({name: frozen(inner) for name, inner in value.items()})
    if isinstance(value, list):
        return FrozenList(map(frozen, value))
    if type(value) is tuple:
        return tuple(map(frozen, value))
    if isinstance(value, Set) and not isinstance(value, frozenset):
        return frozenset(value)
    return value
