"""report(): one self-contained HTML page from result files."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from rramalloc.allocation.allocation import Allocation
from rramalloc.allocation.allocation_input import read_case
from rramalloc.allocation.simulation import Simulation
from rramalloc.allocation.timed import Networks, Timed, contradictions, time_result, time_simulation
from rramalloc.chart import converted
from rramalloc.errors import FileError, SpecError
from rramalloc.files import check_writable, parse_json, read_bytes, read_text, to_json, write_text
from rramalloc.network.network import Network
from rramalloc.reading import RESULT_LIMIT_BYTES, result_of
from rramalloc.records import Record, brief, format_name
from rramalloc.room import load_from, rooms
from rramalloc.version import __version__
from rramalloc.view.html import escaped, pairs_html, section_html, table_html
from rramalloc.view.view import LEVELS, View, table

_LACKS = (
    "Where each stage waits, the critical path and buffers are not shown: they need the network, and none "
    "that ships has this hash. Give its file with --network."
)
_UNCHECKED = "not checked, as the network is not known"
SIZE_LIMIT_BYTES = 2_000_000  # of a page; a larger one is written again with less detail
MOST_ROWS = 100_000  # of the folder of a sweep: 2 kB of memory each
MOST_FILES = 40  # of a page, which shows each in a section
_ASSET_LIMIT_BYTES = 2**20  # of a file of the package
_LONGEST_TITLE = 200  # letters


def report(
    files: Sequence[str | os.PathLike[str] | Record],
    output: str | os.PathLike[str] | None = None,
    *,
    networks: Sequence[str | Network] = (),
    title: str | None = None,
    date: str | None = None,
    command: str | None = None,
) -> str:
    """Return the HTML of a page that shows results.

    Parameters
    ----------
    files
        Results as JSON files or as objects, and folders of sweeps.
    output
        File to write the page to.
    networks
        Files, names or networks, from which stalls, buffers and the critical path of an allocation come;
        those that ship are found without.
    title
        Heading of the page.
    date
        Shown as it is given; nothing is shown of the clock.
    command
        Command that made the page, shown as it is given.

    Returns
    -------
    str
        The page.

    Raises
    ------
    RramallocError
        FileError, SpecError, UnknownNameError; then nothing is written.
    """
    if not 1 <= len(files) <= MOST_FILES:
        raise SpecError("report", f"needs 1 to {MOST_FILES} files, got {len(files)}")
    for option, text in (("title", title), ("date", date)):
        if text is not None and not 0 < len(text) <= _LONGEST_TITLE:
            raise SpecError(option, f"must have 1 to {_LONGEST_TITLE} letters, got {brief(text)}")
    check_writable(output)
    known = Networks(networks)
    sources = [read_source(file) for file in files]
    timings = [_timed(source, sources, known) for source in sources]
    length = 0
    views = list[View]()
    for source, timed in zip(sources, timings, strict=True):
        with _naming(source):
            views.append(_view(source, timed, known))
    for detail in LEVELS:
        sections = list[tuple[View, str]]()
        for place, (source, view) in enumerate(zip(sources, views, strict=True), 1):
            with _naming(source):
                sections.append((view, section_html(view, f"r{place}", detail)))
        page = _page(sources, sections, title, {"Date": date, "Command": command})
        length = len(page.encode())
        if length <= SIZE_LIMIT_BYTES:
            if output is not None:
                write_text(output, page)
            return page
    raise SpecError(
        "report",
        f"has {length} bytes even with the least detail, the limit is {SIZE_LIMIT_BYTES}: give fewer files",
    )


def _timed(source: Source, sources: Sequence[Source], known: Networks) -> Timed | None:
    """Return the times that follow from the network, or for an allocation from a simulation among the other
    files."""
    result = source.result
    if not isinstance(result, Allocation | Simulation):
        return None
    if words := next(contradictions(result), None):  # the first: others follow from it
        raise SpecError(source.path, f"{words}: the file was changed, make it anew")
    timed = time_result(result, known, source.path)
    network = known.find(result.network.sha256)
    if isinstance(result, Allocation) and timed is not None and network is not None:
        return replace(timed, limit="; ".join([timed.limit, *_step(result, network, timed)]))
    if isinstance(result, Simulation) or timed is not None:
        return timed
    for other in sources:
        if isinstance(other.result, Simulation) and _same(result, other.result):
            return time_simulation(other.result, None, other.path)
    return None


def _step(allocation: Allocation, network: Network, timed: Timed) -> Iterator[str]:
    """Yield the fact that names the bottleneck of a step, if the hardware gives a time."""
    if "explain" not in rooms():
        return
    what_binds = rooms()["explain"].load("step_parts:what_binds")
    case, given = read_case(network, allocation, {})
    timing = timed.timing
    if timing is not None and (words := what_binds(case, timing, given.transfer_ns)):
        yield words


def _same(allocation: Allocation, simulation: Simulation) -> bool:
    """Return True if a simulation is of an allocation: its network, copies and blocks."""
    results = [
        {layer.name: (layer.copies, layer.block or (1, 1), layer.cycles or 1) for layer in result.layers}
        for result in (allocation, simulation)
    ]
    of_network = simulation.network.sha256 == allocation.network.sha256
    return of_network and simulation.handoff == "next" and results[0] == results[1]


def _view(source: Source, timed: Timed | None, known: Networks) -> View:
    """Return the view of a result, of an allocation with the times that follow from its network, and with the
    places that its file keeps."""
    if not isinstance(source.result, Allocation | Simulation):
        made: View = source.result.view()
        return made
    is_timed_again = timed is not None and timed.timing is not None
    # The bound of an allocation is a claim of its file until its network is there to time it by.
    claimed = isinstance(source.result, Allocation) and not is_timed_again
    words = {"claim": _UNCHECKED} if claimed else {}
    view = source.result.view(timed=timed, efficiency=source.result.tops is not None, **words)
    network = known.find(source.result.network.sha256)
    has_places = isinstance(source.result, Allocation) and source.result.places and network is not None
    if has_places and "place" in rooms():
        placement = load_from("place", "place:place", "places")(network, source.result)
        view = replace(view, charts={**view.charts, **placement.view().charts})
    return view if timed is not None else replace(view, notes=(*view.notes, _LACKS))


@contextmanager
def _naming(source: Source) -> Iterator[None]:
    """Raise SpecError, naming the file, where it has numbers beyond those of a chart or was changed."""
    try:
        yield
    except OverflowError:
        raise SpecError(source.path, "has a number above 1e308, which no chart can show") from None
    except (ValueError, LookupError, ArithmeticError) as error:
        words = f"was changed: its parts do not fit each other ({error}); make it again"
        raise SpecError(source.path, words) from error


def _page(
    sources: Sequence[Source],
    written: Sequence[tuple[View, str]],
    title: str | None,
    provenance: Mapping[str, str | None],
) -> str:
    sections = [section for section, _ in written]
    heading = title or (sections[0].title if len(sections) == 1 else "Crossbar allocation report")
    names = [f"r{place}" for place in range(1, len(sections) + 1)]
    links = "".join(
        f'<li><a href="#{name}">{escaped(section.title)}</a> '
        f'<span class="sub">{escaped(section.kind)}</span></li>'
        for name, section in zip(names, sections, strict=True)
    )
    versions = f"rramalloc {__version__}, Vega {_vega_version()}"
    pairs = [(term, text) for term, text in provenance.items() if text is not None] + [("Made by", versions)]
    files = table("Files", sources, "file=path, format, sha256", format=lambda source: source.result.format)
    values = {
        "title": escaped(heading),
        "links": f'<nav aria-label="Results"><ol>{links}</ol></nav>' if len(sections) > 1 else "",
        "sections": "\n".join(html for _, html in written),
        "provenance": pairs_html(pairs) + table_html(files, "files"),
        "style": _asset("page.css"),
    }
    scripts = [_library(), _asset("page.js")]
    values["scripts"] = "\n".join(f"<script>{script}</script>" for script in scripts)
    values["hashes"] = " ".join(f"'sha256-{_sha256(script)}'" for script in scripts)
    pieces = _asset("page.html").split("%%")
    return "".join(values[piece] if place % 2 else piece for place, piece in enumerate(pieces))


@cache
def _vega_version() -> str:
    return converted("get_vega_version").decode()


@cache
def _library() -> str:
    """Return the code of Vega, Vega-Lite and Vega-Embed for charts."""
    code = converted("javascript_bundle", "window.vegaEmbed = vegaEmbed;").decode()
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _asset(name: str) -> str:
    return read_text(Path(__file__).with_name(name), _ASSET_LIMIT_BYTES)


@dataclass(frozen=True, eq=False)
class Source:
    """A result and where it came from. path: as the user named it; sha256: of the file's bytes, of a sweep's
    folder those of the JSON that `sweep --format json` prints.
    """

    path: str
    sha256: str
    result: Any


def read_source(given: Any) -> Source:
    """Read a result from its file, from the folder of a sweep, or as a record. Raises FileError,
    SpecError."""
    if not isinstance(given, str | os.PathLike | Record):
        given = getattr(given, "document", given)  # of an evaluation
    if isinstance(given, Record):
        if not _is_shown(getattr(given, "format", None)):
            raise SpecError("report", f"cannot show a {type(given).__name__}; {_known()}")
        return _hashed(f"({type(given).__name__})", given)
    path = os.fspath(given)
    if os.path.isdir(path):
        return _hashed(path, load_from("sweep", "sweep:read_sweep", "the folder of a sweep")(path, MOST_ROWS))
    content = read_bytes(path, RESULT_LIMIT_BYTES)
    return Source(path, hashlib.sha256(content).hexdigest(), _parsed(content, path))


def _hashed(path: str, result: Any) -> Source:
    """Return a result that is no file, with the hash of the JSON that it is as one."""
    rows = getattr(result, "rows", None) if hasattr(result, "json_parts") else None
    digest = hashlib.sha256()
    for part in (to_json(result.to_dict()),) if rows is None else result.json_parts(rows):
        digest.update(part.encode())
    return Source(path, digest.hexdigest(), result)


def _parsed(content: bytes, where: str) -> Record:
    try:
        document = parse_json(content.decode("utf-8-sig"), where)
    except UnicodeDecodeError as error:
        raise FileError(where, f"is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    if not isinstance(document, dict):
        raise SpecError(where, f"must be a result of this program, got {brief(document)}; {_known()}")
    if not _is_shown(document.get("format")):
        raise SpecError(where, f"format: got {brief(document.get('format'))}; {_known()}")
    result: Record = result_of(document, where)
    return result


def _known() -> str:
    shown = (name for room in rooms().values() for name in room.views)
    return f"a report shows the JSON files of: {', '.join(shown)}"


def _is_shown(text: object) -> bool:
    """Return True if a room shows the results of a format."""
    return any(format_name(text) in room.views for room in rooms().values())
