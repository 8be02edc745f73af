"""Immutable, validated value types: the base of every description that comes from a file.

The same class parses untrusted data (`parse`), checks arguments in Python and yields the JSON Schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeGuard, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from rramalloc.errors import SpecError, UnknownNameError, suggestion
from rramalloc.frozen import frozen

MAX_WORK = 10**9
"""Units of search, 0.05 s each on a reference core."""
FORMAT_PREFIX = "rramalloc-"
"""Beginning of the names of all file formats."""
CHECKED = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
"""Checks of pydantic in every record: no unknown fields, no conversions, no infinities."""
Steps = Annotated[int, Field(ge=0, le=2**53)]
"""Steps, batches or pixels: at most 2^53, up to which JSON readers with doubles keep whole numbers exact."""
_MOST_BITS = 200  # of whole numbers that messages show; Python writes none of more than 4,300 digits
_SHOWN = 3  # faults of a document that one message lists
T = TypeVar("T")


if TYPE_CHECKING:
    _CheckedModel = BaseModel
else:

    class _RecordMeta(type(BaseModel)):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().__call__(*args, **kwargs)
            except ValidationError as error:
                raise SpecError(cls.__name__, describe(error)) from None

    class _CheckedModel(BaseModel, metaclass=_RecordMeta):
        """A model whose constructor raises SpecError."""


class Record(_CheckedModel):
    """Frozen value type; unknown fields and implicit conversions are refused.

    Raises SpecError if a field does not hold what its annotation says.
    """

    model_config = ConfigDict(**CHECKED, frozen=True)

    def model_post_init(self, _: Any) -> None:
        """Freeze the values of the fields."""
        self.__dict__.update({name: frozen(value) for name, value in self.__dict__.items()})
        if self.__pydantic_extra__:
            self.__pydantic_extra__.update(frozen(self.__pydantic_extra__))

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return the same record with some fields replaced, which are not checked."""
        return super().model_copy(update=frozen(update or {}), deep=deep)

    def __dir__(self) -> list[str]:
        """Return the names that are its own, without those of pydantic."""
        fields = type(self).model_fields
        return [
            name
            for name in sorted({*super().__dir__(), *fields})
            if name in fields or not (name.startswith("_") or name in _OF_BASES)
        ]

    @classmethod
    def gather(cls, *sources: object, **given: Any) -> Self:
        """Return a record of the fields given, the others from the first source with such an attribute."""
        for name in cls.model_fields:
            for source in sources:
                if name not in given and hasattr(source, name):
                    given[name] = getattr(source, name)
        return cls(**given)


_OF_BASES = {*dir(BaseModel), "gather"}
"""Names of a record that are not for its users."""


def from_list(schema: Any) -> BeforeValidator:
    """Lets a list in Python be the tuple that a field holds, as one in a file is; schema: of the list."""
    return BeforeValidator(as_tuple, json_schema_input_type=schema)


def as_tuple(value: Any) -> Any:
    """Return a list as a tuple, anything else as it is."""
    return tuple(value) if isinstance(value, list) else value


def listed(value: Any) -> Any:
    """Return a list as a tuple, and a single value as a tuple of one."""
    value = as_tuple(value)
    return value if isinstance(value, tuple) else (value,)


def absent(value: object) -> bool:
    """Return True if a field has no value: `exclude_if` of fields that files then omit."""
    return value is None


def parse(kind: TypeAdapter[T], data: object, where: str) -> T:
    """Validate untrusted `data` as JSON, whose lists may be the tuples of records; `where` names the file.

    Raises
    ------
    SpecError
        A field does not hold what its annotation says.
    """
    try:
        text = json.dumps(data)
    except (TypeError, ValueError):  # a date of TOML, an object of a caller: some field will not take it
        return check(kind, data, where)
    except RecursionError:
        raise SpecError(where, "is nested too deeply") from None
    try:
        return kind.validate_json(text)
    except ValidationError as error:
        raise SpecError(where, describe(error, data, fields=_field_names(kind))) from None


def check(kind: TypeAdapter[T], data: object, where: str) -> T:
    """Validate Python objects, records among them, as `parse` does what a file holds. Raises SpecError."""
    try:
        return kind.validate_python(data)
    except ValidationError as error:
        raise SpecError(where, describe(error, data, fields=_field_names(kind))) from None


_NAMED: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


def dict_by_name(value: object, where: str) -> dict[str, Any]:
    """Return what must be a dict of texts to anything. Raises SpecError."""
    return check(_NAMED, value, where)


@lru_cache
def _field_names(kind: TypeAdapter[Any]) -> dict[str, str]:
    """Names of the fields of a type and of everything in it, each with what it may be, in words.

    One is suggested for a name that is not known, and what it may be is said of one that is missing.
    """
    schema = kind.json_schema()
    found = dict[str, str]()
    for part in (schema, *schema.get("$defs", {}).values()):
        for name, inner in part.get("properties", {}).items():
            words = _allowed(inner)
            found[name] = words if found.get(name, words) == words else ""
    return found


def _allowed(schema: Mapping[str, Any]) -> str:
    """Return in words what a JSON Schema allows, "" if that takes more than a few words."""
    if "enum" in schema:
        return " or ".join(map(json.dumps, schema["enum"]))
    if schema.get("type") not in ("integer", "number"):
        return ""
    ends = [f"{schema[end]:g}" for end in ("minimum", "maximum") if end in schema]
    kind = "a whole number" if schema["type"] == "integer" else "a number"
    return f"{kind} from {' to '.join(ends)}" if len(ends) > 1 else kind


def check_range(name: str, value: float | None, low: float, high: float) -> None:
    """Raise SpecError unless an argument is within its limits, or None."""
    if value is not None and (isinstance(value, bool) or not low <= value <= high):
        most = high if isinstance(high, int) else f"{high:g}"
        raise SpecError(name, f"must be from {low} to {most}, got {brief(value)}")


def check_effort(seed: int, work: int, time_limit_s: float | None, most_seed: int = 2**53) -> None:
    """Raise SpecError unless the seed, work and time limit of a search are within their limits."""
    check_range("seed", seed, 0, most_seed)
    check_range("work", work, 0, MAX_WORK)
    check_range("time limit", time_limit_s, 0, 10**9)


def is_whole(value: object, least: int, most: int) -> TypeGuard[int]:
    """Return True if a value is a whole number within limits, which True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def check_known(kind: str, name: object, known: Sequence[str]) -> None:
    """Raise UnknownNameError unless an argument is one of the names."""
    if name not in known:
        raise UnknownNameError(kind, str(name), known)


def format_name(text: object) -> str:
    """Return the name of a format, "allocation" of "rramalloc-allocation/2"; empty for what is none."""
    if not isinstance(text, str) or not text.startswith(FORMAT_PREFIX):
        return ""
    return text.removeprefix(FORMAT_PREFIX).rpartition("/")[0]


def check_format(document: object, known: str, where: str, note: str = "") -> None:
    """Raise SpecError unless a file says that it is of a format; note: what messages add."""
    got = document.get("format") if isinstance(document, dict) else document
    if got != known:
        raise SpecError(where, f"format: must be {known!r}{note}, got {brief(got)}")


def fault(reason: str) -> PydanticCustomError:
    """Return a validation error without pydantic's prefix; it would take braces for fields."""
    return PydanticCustomError("fault", "{reason}", {"reason": reason})


def describe(error: ValidationError, data: object = None, fields: Mapping[str, str] | None = None) -> str:
    """Return at most three faults in words, each with its field and the value that was got.

    fields: names of fields, of which the nearest is suggested for an unknown one, with what they may be.
    """
    faults = error.errors(include_url=False, include_context=False)
    shown = [
        _fault(fault["loc"], fault["msg"], fault["input"], data, fields or {}) for fault in faults[:_SHOWN]
    ]
    if len(faults) > _SHOWN:
        shown.append(f"and {len(faults) - _SHOWN} more")
    return "; ".join(shown)


def text_of(value: object) -> str:
    """Return the text of a value; of a whole number too long to be meant, how many bits it has."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"an integer of {value.bit_length()} bits"
    return str(value)


def brief(value: object, limit: int = 60) -> str:
    """Return a short printable form of an untrusted value, never longer than `limit` characters."""
    if isinstance(value, int):
        return text_of(value)
    if isinstance(value, dict | list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, str):
        value = value[: limit + 1]
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _fault(
    loc: Iterable[int | str], message: str, got: object, data: object, fields: Mapping[str, str]
) -> str:
    text = ""
    path: Any = data
    for step in loc:
        try:
            inner = path[step]
        except (KeyError, IndexError, TypeError):
            inner = None
        if inner is None and isinstance(step, str) and isinstance(path, dict) and step == path.get("op"):
            continue  # the tag of a union, not a field
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
        path = inner
        if isinstance(path, dict) and isinstance(path.get("name"), str):
            text += f" {brief(path['name'])}"
    reason = message[0].lower() + message[1:]
    if "field required" in reason or "extra inputs" in reason:
        if "required" in reason:
            allowed = fields.get(text.rpartition(".")[2], "")
            return f"{text}: this field is missing{f', {allowed}' if allowed else ''}"
        hint = suggestion(text.rpartition(".")[2], [*fields])
        return f"{text}: this field is not known{', ' if hint else ''}{hint}"
    return f"{text or 'document'}: {reason}, got {brief(got)}"
