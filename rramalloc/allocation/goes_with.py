"""The gate: what goes with what, and the one refusal of what does not (docs/sources/model.md 21).

A case and a question have features: kinds of arrays, blocks of windows, limits, a start. What is asked reads
some of them: a room says so for its commands in `Room.reads`, a method in `Method.reads`, an objective in
`Objective.reads`, an option of a question in `OPTIONS`. A feature that a reader does not name is refused.

A new feature is a row of `FEATURES`, and refused everywhere until a reader names it. To lift a refusal, add
the name of the feature to the `reads` of that reader, or take away its "-name"; the page docs/together.md is
written anew by docs/generate.py, and tests/laws/test_goes_with.py then asks for an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from rramalloc.errors import UnsupportedError
from rramalloc.methods.method import Method
from rramalloc.methods.registry import METHODS, method_named
from rramalloc.network.node import Node
from rramalloc.room import installed, rooms
from rramalloc.search.objective import OBJECTIVES

Case = Any
Question = Any
"""Both import this module."""


Remedies = Callable[[str], Sequence[str]]


class Feature(NamedTuple):
    """Property of a case or of a question that not everything reads.

    words: what it is, behind the place it is found in; remedy: how to do without; is_in: whether a case or a
    question has it, or the place where; where: the option that it is of, "" for the hardware.
    """

    words: str
    remedy: str
    is_in: Callable[[Any], object]
    where: str = ""


def _first(case: Case, nodes: Iterable[Node]) -> str:
    """Return the place of the first node as messages name it, "" if there is none."""
    return next((f"{case.network.where}: node {node.name[:60]!r}" for node in nodes), "")


OF_CASE = {
    "kinds": Feature(
        "has several kinds of arrays", "give a hardware with one kind", lambda case: case.hardware.kinds
    ),
    "counting": Feature(
        "counts arrays as [counting] does", "leave the table out", lambda case: case.hardware.counting
    ),
    "first_fit": Feature(
        "fills tiles first fit",
        'take row_blocks = "anywhere"',
        lambda case: case.hardware.fills_first_fit,
    ),
    "own_clock": Feature(
        "gives layers clocks of their own",
        '--set timing.clock="shared"',
        lambda case: case.hardware.own_clock,
    ),
    "links": Feature(
        "gives links between tiles a time",
        "leave hops and bandwidths of [chip] out",
        lambda case: case.hardware.chip is not None and case.hardware.chip.times_links,
    ),
    "images": Feature(
        "computes several images",
        "allocate a network of one image",
        lambda case: _first(
            case, (node for node in case.network.nodes if case.network.shapes[node.name].images > 1)
        ),
        "network",
    ),
    "layer_bits": Feature(
        "has other bits than the first layer",
        "leave them out",
        lambda case: _first(
            case,
            (
                stage
                for stage in case.network.stages
                if case.hardware.of_layer(stage).precision
                != case.hardware.of_layer(case.network.stages[0]).precision
            ),
        ),
        "network",
    ),
    "turns": Feature(
        "the next input needs this one's output",
        "--no-feeds-back",
        lambda case: case.network.sequences,
        "feeds_back",
    ),
    "sequences": Feature(
        "several take turns",
        "take sequences 1, whose interval is the latency",
        lambda case: (case.network.sequences or 1) > 1,
        "sequences",
    ),
    "states": Feature(
        "the next input needs a state of this one",
        "leave the states out",
        lambda case: case.network.states and case.network.sequences is None,
        "states",
    ),
    "sdk": Feature(
        "'sdk' has copies that compute blocks of windows",
        "use im2col",
        lambda case: case.mapping.mapping == "sdk",
        "mapping",
    ),
    "host": Feature(
        "is left to the host and no classifier",
        "leave it out",
        lambda case: _first(case, case.mapping.left_out(case.network)),
        "host",
    ),
    "fold": Feature("changes the shape of filters", "leave it out", lambda case: case.mapping.fold, "fold"),
    "latency_table": Feature(
        "replaces the time of a step", "leave it out", lambda case: case.measured, "latency_table"
    ),
    "copies": Feature("holds copies", "leave it out", lambda case: case.copies, "copies"),
    "copies_divide": Feature("holds copies", "leave it out", lambda case: case.divide, "copies_divide"),
    "at_most": Feature(
        "limits other quantities than area_um2",
        "leave these out",
        lambda case: set(case.at_most) - {"area_um2"},
        "at_most",
    ),
    "interval_limit": Feature(
        "limits interval_ns", "leave it out", lambda case: "interval_ns" in case.at_most, "at_most"
    ),
    "area": Feature("limits area_um2", "leave it out", lambda case: "area_um2" in case.at_most, "at_most"),
}
"""Features of a case: how something is timed, and what limits it."""
OF_QUESTION = {
    "objective": Feature(
        "is not the latency",
        "use objective 'latency'",
        lambda question: question.objective not in ("latency", "arrays"),
        "objective",
    ),
    "target": Feature(
        "makes the objective 'arrays'",
        "leave it out",
        lambda question: question.target.given,
        "target",
    ),
    "interval_target": Feature(
        "is a target of the interval",
        "take a target of the latency",
        lambda question: question.target.is_of_interval,
        "target",
    ),
    "inputs": Feature(
        "asks for the time of several inputs", "leave it out", lambda question: question.inputs > 1, "inputs"
    ),
    "start": Feature("begins with an allocation", "leave it out", lambda question: question.start, "start"),
    "partial_start": Feature(
        "takes a part of a start", "leave it out", lambda question: question.takes_part, "partial_start"
    ),
    "bits": Feature("chooses the bits of layers", "leave it out", lambda question: question.bits, "bits"),
    "placed": Feature(
        "counts the transfer between tiles", "leave it out", lambda question: question.placed, "placed"
    ),
    "interval": Feature(
        "asks for the least interval",
        "leave it out",
        lambda question: question.objective == "interval",
        "interval",
    ),
    "method": Feature(
        "is not 'auto'", "use method auto", lambda question: question.method != "auto", "method"
    ),
}
"""Features of a question."""
FEATURES = OF_CASE | OF_QUESTION
"""Every feature by its name."""
GROUPS = {
    "case": "kinds counting first_fit own_clock links images layer_bits turns sequences states sdk"
    " host fold latency_table",
    "limits": "copies copies_divide at_most interval_limit area",
    "question": "objective target interval_target interval inputs start partial_start bits placed method",
}
"""Names in `reads` that stand for several features; a new feature joins one when all that name it read it."""
OPTIONS = {
    "bits": "case -latency_table limits objective target interval_target interval inputs placed",
    "start": "case limits objective target interval_target interval inputs partial_start placed",
    "partial_start": "case -kinds limits objective target interval_target interval inputs start placed",
    "inputs": "case -sequences -states limits start partial_start bits placed method",
    "interval": "case -sequences -states limits question -interval -inputs -method",
    "interval_target": "case -states limits question",
    "interval_limit": "case -states limits question",
}
"""What options of a question, and limits of a case, go with; interval: the objective, alone or of a front."""
_LABELS = {
    "interval": "an interval",
    "interval_target": "a target of the interval",
    "interval_limit": "a limit of the interval",
}
"""What messages call those that are no options by name."""


def names(reads: str) -> frozenset[str]:
    """Return the features that a text names: "case -kinds" are those of a group but one."""
    found = set[str]()
    for word in reads.split():
        if word.startswith("-"):
            found.remove(word[1:])
        else:
            found |= {*GROUPS.get(word, word).split()}
    return frozenset(found)


def refusal(feature: str, reader: str, where: str, remedies: Sequence[str] | None = None) -> UnsupportedError:
    """Return the error that a reader does not take a feature, found at `where`; remedies: in place of its."""
    row = FEATURES[feature]
    words = f"{row.words}, which {reader} does not take"
    return UnsupportedError(where, words, [row.remedy] if remedies is None else remedies)


def check(
    reader: str,
    reads: str,
    case: Case | None = None,
    question: Question | None = None,
    remedies: Remedies | None = None,
) -> None:
    """Raise UnsupportedError if a case or a question has a feature that `reads` does not name.

    reader: what reads, as a message calls it; remedies: that were tried, by the feature.
    """
    known = names(reads)
    for asked, features in ((case, OF_CASE), (question, OF_QUESTION)):
        for name, feature in features.items() if asked is not None else ():
            if name not in known and (found := feature.is_in(asked)):
                machine = "" if case is None else f"hardware {case.hardware.name[:60]!r}"
                where = found if isinstance(found, str) else feature.where or machine
                raise refusal(name, reader, where, None if remedies is None else remedies(name))


def check_command(
    room: str, name: str, case: Case, question: Question | None = None, remedies: Remedies | None = None
) -> None:
    """Raise UnsupportedError if a command, or an option that a room brings, or a limit of the case does not
    take a feature.
    """
    check(name, installed()[room].reads[name], case, question, remedies)
    for option in OPTIONS:
        if option in OF_CASE and OF_CASE[option].is_in(case):
            check_option(option, case, question)


def takes(room: str, name: str, case: Case, question: Question) -> bool:
    """Return True if a command, or an option that a room brings, is installed and takes all that is asked."""
    if room not in rooms():
        return False
    try:
        check_command(room, name, case, question)
    except UnsupportedError:
        return False
    return True


def check_option(name: str, case: Case, question: Question | None = None) -> None:
    """Raise UnsupportedError if an option of a question does not take a feature."""
    check(_label(name), f"{OPTIONS[name]} {name}", case, question)


def check_question(case: Case, question: Question) -> None:
    """Raise UnsupportedError if the objective, the method or an option does not take a feature."""
    check(f"objective {question.objective!r}", OBJECTIVES[question.objective].reads, case, question)
    check(f"method {question.method!r}", question.way.reads, case, question)
    for name in OPTIONS:
        if name in OF_QUESTION and OF_QUESTION[name].is_in(question):
            check_option(name, case, question)


def _label(option: str) -> str:
    return _LABELS.get(option, f"--{option.replace('_', '-')}")


def fits(method: Method, case: Case) -> bool:
    """Return True if a method goes with a case, and has something of its own to propose."""
    found = {name for name, feature in OF_CASE.items() if feature.is_in(case)}
    return found <= names(method.reads) and {*method.needs.split()} <= found


def readers() -> dict[str, frozenset[str]]:
    """Return what every command, objective, method and option takes, by what messages call it."""
    found = {name: reads for room in rooms().values() for name, reads in room.reads.items()}
    found |= {f"objective {name!r}": kind.reads for name, kind in OBJECTIVES.items()}
    found |= {f"method {name!r}": method_named(name).reads for name in METHODS}
    found |= {_label(name): f"{reads} {name}" for name, reads in OPTIONS.items()}
    return {name: names(reads) for name, reads in found.items()}
