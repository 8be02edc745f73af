"""The files that a page is made from, identified by their `format`."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import TypeAdapter

from rramalloc.errors import FileError, SpecError
from rramalloc.files import parse_json, read_bytes, to_json
from rramalloc.placement.placement import FILE_LIMIT_BYTES, Placement
from rramalloc.records import Record, brief, parse
from rramalloc.results.allocation import Allocation
from rramalloc.results.comparison import Comparison
from rramalloc.results.filter_folding import FilterFold, NetworkFold
from rramalloc.results.pareto_front import ParetoFront
from rramalloc.results.simulation import Simulation
from rramalloc.studies.chiplet.chiplet_optimize import ChipletSchedule
from rramalloc.studies.chiplet.cost import ChipletCost
from rramalloc.studies.strategies.evaluation import Evaluation, EvaluationDocument
from rramalloc.studies.sweep.rows import SweepDocument
from rramalloc.studies.sweep.run import read_sweep
from rramalloc.studies.tune.tuning import Tuning
from rramalloc.timing.latency_table import LatencyTable

Result = (
    Allocation
    | Simulation
    | Comparison
    | ParetoFront
    | SweepDocument
    | Tuning
    | Placement
    | ChipletCost
    | ChipletSchedule
    | EvaluationDocument
    | FilterFold
    | NetworkFold
    | LatencyTable
)
SHOWABLE: dict[str, type[Record]] = {
    str(kind.model_fields["format"].default): kind for kind in get_args(Result)
}


@dataclass(frozen=True, eq=False)
class Source:
    """A result and where it came from. path: as the user named it; sha256: of the file's bytes, of a sweep's
    folder those of the JSON that `sweep --format json` prints.
    """

    path: str
    sha256: str
    result: Result


def read_source(given: str | os.PathLike[str] | Record | Evaluation) -> Source:
    """A result from its file, from the folder of a sweep, or as a record. Raises FileError, SpecError."""
    given = given.document if isinstance(given, Evaluation) else given
    if isinstance(given, Record):
        return _of_record(given)
    path = os.fspath(given)
    if os.path.isdir(path):
        return _of_folder(path)
    content = read_bytes(path, FILE_LIMIT_BYTES)
    return Source(path, hashlib.sha256(content).hexdigest(), _parsed(content, path))


def _of_record(given: Record) -> Source:
    if not isinstance(given, tuple(SHOWABLE.values())):
        raise SpecError("report", f"cannot show a {type(given).__name__}; {_known()}")
    content = to_json(given.to_dict()).encode()  # type: ignore[attr-defined]
    return Source(f"({type(given).__name__})", hashlib.sha256(content).hexdigest(), given)  # type: ignore[arg-type]


def _parsed(content: bytes, where: str) -> Result:
    try:
        document = parse_json(content.decode("utf-8-sig"), where)
    except UnicodeDecodeError as error:
        raise FileError(where, f"is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    if not isinstance(document, dict):
        raise SpecError(where, f"must be a result of this program, got {brief(document)}; {_known()}")
    kind = SHOWABLE.get(str(document.get("format")))
    if kind is None:
        raise SpecError(where, f"format: got {brief(document.get('format'))}; {_known()}")
    return parse(TypeAdapter(kind), document, where)  # type: ignore[return-value]


def _of_folder(folder: str) -> Source:
    """The rows of a finished sweep as its folder has them."""
    document = read_sweep(folder)
    return Source(folder, hashlib.sha256(to_json(document.to_dict()).encode()).hexdigest(), document)


def _known() -> str:
    names: Any = ", ".join(name.removeprefix("rramalloc-").removesuffix("/1") for name in SHOWABLE)
    return f"a report shows the JSON files of: {names}"
