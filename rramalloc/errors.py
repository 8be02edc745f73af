"""All exceptions of the package: a message names the fault, its place, the value, the limit, a remedy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rramalloc.units import Unit


_ENDING = re.compile(r"\.(json|onnx|csv|pt2|toml)$")
_LISTED = 400
"""Layers that the table of a BudgetError lists at most: those that need most."""
_SHORT = 240  # letters of all names that are known, which stand beside the nearest ones where they fit
_SHOWN = 20
"""Layers that a MissingLatencyError names at most."""


_OPTION = re.compile(r"`[^`]*`|(?<![\w-])--([a-z][a-z0-9-]*)")
"""Option of the command line, outside of commands that stand in a message as they are typed."""
_ARGUMENTS = {
    "set": "set_values",
    "input-shape": "input_shapes",
    "input-value": "input_values",
    "time-limit": "time_limit_s",
    "allow-partial": "allow_partial=True",
}
"""Arguments of calls whose options have other names."""


_GIVEN = r"[^\s=]+=[\w.+-]+(?:,[\w.+-]+)*"
_NAMED = re.compile(rf"--input-(shape|value) {_GIVEN}(?: --input-\1 {_GIVEN})*")
"""Options of inputs by name, one after the other, outside of commands too."""


def _as_mapping(found: re.Match[str]) -> str:
    """Return options of inputs as the argument of a call: input_shapes={'x': (1, 3, 224, 224)}."""
    shown = []
    for option in found[0].split()[1::2]:
        name, _, value = option.partition("=")
        numbers = ", ".join(value.split(",")) + "," * (found[1] == "shape" and "," not in value)
        is_several = found[1] == "shape" or "," in value
        plain = f"({numbers})" if is_several else {"true": "True", "false": "False"}.get(value, value)
        shown.append(f"{name!r}: {plain}")
    return f"input_{found[1]}s={{{', '.join(shown)}}}"


class RramallocError(Exception):
    """Base of all errors caused by the input or the budget; the command line exits with 1.

    Messages are written as a terminal shows them. What leaves a public call names arguments in place of
    options: "use mapping sdk" for "use --mapping sdk". IPython shows the message and the user's own lines
    that led to it; `%debug` still has the whole stack.
    """

    in_python = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        text: Callable[[RramallocError], str] | None = cls.__dict__.get("__str__")
        if text is not None:
            text_of = text

            def shown(self: RramallocError) -> str:
                if not self.in_python:
                    return text_of(self)
                return _OPTION.sub(
                    lambda found: (
                        _ARGUMENTS.get(found[1], found[1].replace("-", "_")) if found[1] else found[0]
                    ),
                    _NAMED.sub(_as_mapping, text_of(self)),
                )

            cls.__str__ = shown  # type: ignore[assignment, method-assign]

    @property
    def on_terminal(self) -> str:
        """The message with options of the command line."""
        before = self.in_python
        self.in_python = False
        try:
            return str(self)
        finally:
            self.in_python = before

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython prints instead of a traceback."""
        import traceback
        from pathlib import Path

        shown, package = [f"{type(self).__name__}: {self}"], str(Path(__file__).parent)
        for frame in traceback.extract_tb(self.__traceback__):
            if frame.filename.startswith(package):
                break
            if not frame.filename.endswith("interactiveshell.py"):
                place = "" if frame.name.startswith("<") else f" of {frame.name}"
                shown.append(f"in line {frame.lineno}{place}: {frame.line}")
        return shown


class FileError(RramallocError):
    """A file cannot be read or written.

    path: the file as the user named it; reason: what went wrong and what would help.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"

    def suggesting(self, kind: str, name: str, known: Sequence[str]) -> FileError:
        """Return the same error, with the nearest of the names `known` if one is much like the file's."""
        hint = suggestion(name, known, kind=f"the {kind} ", cutoff=0.75)
        return FileError(self.path, f"{self.reason}; {hint}" if hint else self.reason)


class SpecError(RramallocError, ValueError):
    """A value in a description (network, hardware, allocation, option) is not allowed.

    where: file and field ("vgg.json: nodes[3] 'conv1'.kernel"); reason: got, limit and remedy.
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where, self.reason = where, reason

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class NetworkError(SpecError):
    """A network is not a well-formed graph, or the shapes of two of its nodes do not match."""


class UnsupportedError(SpecError):
    """The input is well-formed but uses something the model cannot express (`If`, `Loop`, no stage).

    remedies: what helps, in words, where that is known; they end the reason.
    """

    def __init__(self, where: str, reason: str, remedies: Sequence[str] = ()) -> None:
        super().__init__(where, ": ".join([reason, *([", or ".join(remedies)] if remedies else [])]))
        self.remedies = tuple(remedies)


class UnknownNameError(RramallocError, LookupError):
    """A name (network, preset, method, schema) is not known.

    kind: what was asked for; name: what the user wrote; known: every name there is; files: those there are.
    """

    def __init__(self, kind: str, name: str, known: Sequence[str], files: Sequence[str] = ()) -> None:
        super().__init__(kind, name, tuple(known), tuple(files))
        self.kind, self.name, self.known, self.files = kind, name, tuple(known), tuple(files)

    def __str__(self) -> str:
        hint = suggestion(self.name, self.files, cutoff=0.75) or suggestion(self.name, self.known)
        known = f"known: {', '.join(self.known)}"
        if hint and len(known) <= _SHORT:
            hint = f"{hint} {known}"
        return f"no {self.kind} named {_label(self.name)!r}; {hint or known}"


def suggestion(name: str, known: Sequence[str], *, kind: str = "", cutoff: float = 0.5) -> str:
    """Return "did you mean vgg16 or vgg19?" for "vgg61", nothing if no name that is known is near.

    Endings of files do not count: "chp.toml" is nearer to "chip" than to "my.toml".
    """
    import difflib

    by_stem = {_ENDING.sub("", name.lower()): name for name in reversed(known) if name.isprintable()}
    near = difflib.get_close_matches(_ENDING.sub("", name.lower()[:200]), by_stem, n=3, cutoff=cutoff)
    return f"did you mean {kind}{' or '.join(by_stem[name] for name in near)}?" if near else ""


class BudgetError(RramallocError):
    """Copies 1 everywhere needs more arrays than the budget.

    need: arrays with every layer stored once; have: the budget; demands: (layer, arrays) in network order;
    in_unit: the unit of these numbers, and how many of them it has, where kinds of arrays have areas;
    chip: arrays of one chip where the chips have fewer than are needed, 0 where the budget is what is short;
    reload: what --reload would need in the hardware file, none if it would work, None if nothing helps;
    held: whether layers must have more copies than one, so that `need` is of the fewest that are allowed;
    remedies: what was tried and works, in words; None where nothing was tried, as `need` arrays are enough;
    network: its name, where a call is about several.
    """

    def __init__(
        self,
        need: int,
        have: int,
        demands: Sequence[tuple[str, int]],
        chip: int = 0,
        *,
        held: bool = False,
        in_unit: tuple[Unit, int] = ("arrays", 1),
    ) -> None:
        super().__init__(need, have, tuple(demands), chip)
        self.reload: Sequence[str] | None = None
        self.remedies: Sequence[str] | None = None
        self.network = ""
        self.in_unit = in_unit
        self.need, self.have, self.demands, self.chip = need, have, tuple(demands), chip
        self.held = held

    @property
    def largest(self) -> str:
        """The layer that needs most arrays, the first of equals."""
        return max(self.demands, key=lambda item: item[1])[0]

    def __str__(self) -> str:
        unit, per_unit = self.in_unit
        of = f"{_label(self.network)}: " if self.network else ""
        if per_unit != 1:
            need, have = (f"{cost / per_unit:,.10g} {unit}" for cost in (self.need, self.have))
            return f"{of}every layer once takes {need} or more, the limits leave {have}: raise them"
        shown: tuple[tuple[str, int], ...] = self.demands
        if len(shown) > _LISTED:
            largest = sorted(range(len(shown)), key=lambda place: -shown[place][1])[:_LISTED]
            shown = tuple(shown[place] for place in sorted(largest))
        rows = [(_label(name), arrays) for name, arrays in shown]
        if len(self.demands) > len(shown):
            rest = self.need - sum(arrays for _, arrays in shown)
            rows.append((f"{len(self.demands) - len(shown)} smaller ones", rest))
        width = max(len("needed"), *(len(name) for name, _ in rows))
        table = "\n".join(f"  {name:<{width}}  {arrays:>8}" for name, arrays in rows)
        stored = "in the fewest copies that are asked for" if self.held else "stored once"
        if self.chip:
            chips = -(-self.need // self.chip)
            short = (
                f"the chips have {self.have:,} arrays, {self.need:,} are needed with every layer {stored}: "
                f"{chips:,} chips of {self.chip:,}"
            )
        else:
            short = f"needs {self.need} arrays with every layer {stored}, the budget is {self.have}"
        remedies = [f"the smallest budget that works is --arrays {self.need}"]
        if self.remedies is not None:
            remedies = list(self.remedies)
        if self.reload is not None and not self.held:
            lacks = f" (needs {' and '.join(self.reload)} in the hardware file)" if self.reload else ""
            remedies.append(f"--reload to write and run the layers in segments{lacks}")
        advice = f": {', or '.join(remedies)}" if remedies else ""
        return (
            f"{of}{short}; largest layer is {_label(self.largest)!r}{advice}\n"
            f"  {'layer':<{width}}    arrays\n{table}\n  {'needed':<{width}}  {self.need:>8}\n"
            f"  {'budget':<{width}}  {self.have:>8}"
        )


def _label(name: str, limit: int = 60) -> str:
    """Return a layer's name as a table can show it."""
    name = name if name.isprintable() else repr(name)[1:-1]
    return name if len(name) <= limit else name[: limit - 3] + "..."


class CapacityError(RramallocError):
    """An allocation does not fit the chips.

    need: arrays of all copies; tiles, arrays: tiles there are, and arrays of each; largest: (layer, copies,
    arrays of a copy) of the layer that takes most; proven: whether no placement exists, rather than none
    was found; own_tiles: whether a tile holds one layer only, else row blocks of copies must lie in one;
    taken: arrays that hold other networks; remedies: what was tried and works, in words.
    """

    def __init__(
        self,
        need: int,
        tiles: int,
        arrays: int,
        largest: tuple[str, int, int],
        *,
        proven: bool = True,
        own_tiles: bool = False,
        taken: int = 0,
    ) -> None:
        super().__init__(need, tiles, arrays, largest)
        self.remedies: Sequence[str] = ()
        self.taken = taken
        self.need, self.tiles, self.arrays, self.largest = need, tiles, arrays, largest
        self.proven, self.own_tiles = proven, own_tiles

    def __str__(self) -> str:
        have, (name, copies, demand) = self.tiles * self.arrays, self.largest
        if self.taken:
            what = f"other networks leave {have - self.taken} of {have}"
        elif self.need > have:
            what = f"the chips have {have}"
        elif self.own_tiles:
            what = f'of {have}, but every layer takes tiles of its own (sharing = "layer")'
        else:
            finding = "no way" if self.proven else "found no way"
            what = f"of {have}, but {finding} to keep every row block of a copy in one tile"
        advice = f": {', or '.join(self.remedies)}" if self.remedies else ""
        return (
            f"the allocation needs {self.need} arrays, {what} ({self.tiles} tiles of {self.arrays}); the "
            f"largest layer is {_label(name)!r} with {copies} copies of {demand}{advice}"
        )


class MisplacedError(RramallocError):
    """A placement does not hold its allocation.

    where: the file; entry: what is wrong in it ("arrays[3]", "layer 'conv1'"); reason: got, limit, remedy.
    """

    def __init__(self, where: str, entry: str, reason: str) -> None:
        super().__init__(where, entry, reason)
        self.where, self.entry, self.reason = where, entry, reason

    def __str__(self) -> str:
        return f"{self.where}: {self.entry}: {self.reason}"


class TargetError(RramallocError):
    """No allocation within the budget reaches the wanted latency, interval or throughput, or none was found.

    target, bound: in `unit`; bound: no allocation within the budget is better; proven: whether the bound
    excludes the target; goal: what is to be reached; reached: of an allocation within the budget, None if it
    is not known; chip: arrays that can be used of the chips, where they and not --arrays are the limit.
    need, remedy: arrays that are enough, and how to have them; hopeless: whether no number of arrays is, None
    where it was not tried; least: what none undercuts then; limit: in words what holds it back.
    """

    def __init__(
        self,
        target: float,
        bound: float,
        unit: str,
        *,
        proven: bool = True,
        goal: str = "latency",
        reached: float | None = None,
        limit: str = "",
    ) -> None:
        super().__init__(target, bound, unit)
        self.chip: int | None = None
        self.need: int | None = None
        self.remedy = ""
        self.hopeless: bool | None = None
        self.least = 0.0
        self.target, self.bound, self.unit, self.proven, self.goal = target, bound, unit, proven, goal
        self.reached, self.limit = reached, limit

    def in_unit(self, convert: Callable[[float], float], unit: str, target: float, goal: str) -> TargetError:
        """Return the same error with its values converted, and the target as it was asked for."""
        reached = None if self.reached is None else convert(self.reached)
        values = {"proven": self.proven, "goal": goal, "reached": reached, "limit": self.limit}
        return TargetError(target, convert(self.bound), unit, **values)  # type: ignore[arg-type]

    def __str__(self) -> str:
        what = "cannot be met" if self.proven else "was not met within the work allowed"
        limit = "the budget" if self.chip is None else f"the {self.chip} arrays of the chips"
        goal, best, _ = _GOALS[self.goal]
        return (
            f"the {goal} of {self.target:.10g} {self.unit} {what}: no allocation within {limit} {best} "
            f"{self.bound:.10g} {self.unit}; {', or '.join(self.remedies)}"
        )

    @property
    def remedies(self) -> list[str]:
        """Remedies in words: other arrays or hardware, and an easier target."""
        if self.reached is not None:
            return [self._advice, f"give a target of {exact(self.reached)} {self.unit}"]
        return [self._advice, f"give {_GOALS[self.goal][2]} target"]

    @property
    def _advice(self) -> str:
        """Return the remedies besides an easier target."""
        if self.need is not None:
            return f"{self.need} arrays are enough: {self.remedy}"
        if self.hopeless is None:
            return (
                "more arrays were not tried" if self.proven else "use more --work; more arrays were not tried"
            )
        _, best, _ = _GOALS[self.goal]
        words = f"with any number of arrays none {best} {self.least:.10g} {self.unit}"
        if not self.hopeless:
            return f"none was found with any number of arrays, and {words}: more --work"
        held = f", as {self.limit}" if self.limit else f": {words}"
        return f"no number of arrays helps{held}; change the hardware"


def exact(value: float) -> str:
    """Return a number exactly, with ten digits if these suffice."""
    return text if float(text := f"{value:.10g}") == value else repr(value)


_GOALS = {
    "latency": ("target", "is faster than", "a higher"),
    "interval": ("target interval", "has a shorter one than", "a higher"),
    "throughput": ("target", "has more than", "a lower"),
}
"""Name of a target, the verb of allocations that miss it, and the direction of an easier one."""


class LimitError(RramallocError):
    """No allocation keeps to a limit of a quantity, or none was found.

    quantity, limit: as asked for; least: no allocation within the budget has less if that is proven, else
    what the nearest one has that was found; remedies: what was tried and works, in words.
    """

    def __init__(self, quantity: str, limit: float, least: float, *, proven: bool) -> None:
        super().__init__(quantity, limit, least)
        self.remedies: Sequence[str] = ()
        self.quantity, self.limit, self.least, self.proven = quantity, limit, least, proven

    def __str__(self) -> str:
        what = f"{self.quantity} of at most {self.limit:.10g}"
        advice = ", or ".join(self.remedies) or "raise the limit"
        if not self.proven:
            return (
                f"no allocation with {what} was found within the work allowed: the nearest one has "
                f"{self.least:.10g}; {advice}, or more --work"
            )
        return (
            f"{what} cannot be kept: no allocation within the budget and the other limits has less than "
            f"{self.least:.10g}; {advice}"
        )


class MissingLatencyError(RramallocError, LookupError):
    """A latency table does not have all layers that it is needed for.

    layers: (name, operator with shape and parameters) of those it lacks, in network order.
    """

    def __init__(self, layers: Sequence[tuple[str, str]]) -> None:
        super().__init__(tuple(layers))
        self.layers = tuple(layers)

    def __str__(self) -> str:
        shown = "".join(f"\n  {_label(name)}: {text[:200]}" for name, text in self.layers[:_SHOWN])
        more = f"\n  and {len(self.layers) - _SHOWN} more" if len(self.layers) > _SHOWN else ""
        return (
            f"the latency table lacks {len(self.layers)} layers: measure them with `rramalloc latency "
            f"measure`, or use hardware with [timing]{shown}{more}"
        )


class DeviceError(RramallocError):
    """A device whose latency is to be measured cannot be used, or what it measured is of no use.

    device: as the user named it; reason: what is wrong and what helps.
    """

    def __init__(self, device: str, reason: str) -> None:
        super().__init__(device, reason)
        self.device, self.reason = device, reason

    def __str__(self) -> str:
        return f"device {_label(self.device)}: {self.reason}"


class WorkerError(RramallocError):
    """Workers of a sweep, or the cluster they belong to, cannot be used; says why and what helps."""


class SolverError(RramallocError):
    """An external solver failed or returned an allocation that does not hold; says which and how."""


class InfeasibleError(RramallocError):
    """No chip of all candidates reaches the goals, or none was found.

    summary: in a line; reasons: what holds each network back, and which choice comes nearest.
    """

    def __init__(self, summary: str, reasons: Sequence[str]) -> None:
        super().__init__(summary, reasons)
        self.summary, self.reasons = summary, tuple(reasons)

    def __str__(self) -> str:
        return "; ".join([self.summary, *self.reasons])


class PluginError(RramallocError):
    """Code of others failed, an entry point or a function that was given; says which, where and how."""


class SimulatorError(RramallocError):
    """A simulator gave no figure for an allocation, or none for any; says why and what helps."""
