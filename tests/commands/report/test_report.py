"""The page as text: what is on it, that nothing in it is more than text, and that it is always the same."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from commands.report.results import HOSTILE, KINDS, write_network
from commands.tune.toys import GRAPH, NETWORK, OwnClocks

import rramalloc
from rramalloc.commands.report.report import SIZE_LIMIT_BYTES, read_source, report
from rramalloc.commands.tune.tuning import OwnChoice
from rramalloc.errors import FileError, RramallocError, SpecError
from rramalloc.files import to_json
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.loader import load_hardware
from rramalloc.room import load_from, rooms
from rramalloc.view.html import escaped


class Page(HTMLParser):
    """Tags that a browser would make, the text of cells, and what scripts hold."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self.scripts: list[str] = []
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag
        if tag == "td":
            self.cells.append("")
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "td":
            self.cells[-1] += data
        if self.inside == "script":
            self.scripts[-1] += data


def made(files: dict[str, Path], *kinds: str, network: bool = True) -> str:
    return report([files[kind] for kind in kinds], networks=[str(files["network"])] if network else ())


def test_every_kind_has_its_section(shown: dict[str, Path]) -> None:
    page = made(shown, *KINDS)
    for words in (
        "Pipeline timeline",
        "Buffer demand",
        "Pareto front",
        "Methods side by side",
        "Chip map",
        "Provenance",
    ):
        assert words in page
    titles = re.findall(r"<h2[^>]*>([^<]*)", page.split("</main>")[0])
    assert len(titles) == len(KINDS) + 1
    assert len(page.encode()) <= SIZE_LIMIT_BYTES


def test_an_allocation_opens_with_what_holds_it_back(shown: dict[str, Path]) -> None:
    """The hardware gives steps of 100 ns whatever is in them."""
    (opening,) = re.findall(r'<p class="limit">(.*?)</p>', made(shown, "allocation"))
    assert "holds the network back" in opening
    assert "a step takes 100 ns, set by step_ns of [timing]" in opening
    (alone,) = re.findall(r'<p class="limit">(.*?)</p>', made(shown, "allocation", network=False))
    assert "a step takes" not in alone


def test_a_page_answers_the_question() -> None:
    """By hand, 5 arrays: four copies of 16 windows and one of 4 have an interval of 4 steps."""
    nodes = [
        {"name": "in", "op": "input", "shape": [1, 4, 4]},
        {"name": "first", "op": "conv", "inputs": ["in"], "out_channels": 2, "kernel": 1},
        {"name": "last", "op": "conv", "inputs": ["first"], "out_channels": 2, "kernel": 2, "stride": 2},
    ]
    network = rramalloc.Network.build("two", nodes)
    found = rramalloc.optimize(network, 5, objective="interval", hardware="isaac-todaes")
    assert found.interval == 4
    page = rramalloc.report([found], networks=[network])
    tiles = re.findall(r"<div><dt>(.*?)</dt><dd>(.*?)</dd>", page)
    assert tiles[0] == ("Interval", "4 steps")
    limit = re.search(r'<p class="limit">(.*?)</p>', page)
    assert limit is not None
    assert limit[1].startswith("an input every ")
    assert "first, last set the interval: busy in 4 of its steps" in limit[1]
    assert "in percent of the interval" in page
    headings = re.findall(r'</figcaption><p class="sub">(.*?)</p>', page)
    assert len(headings) == page.count("<figcaption>") > 2
    assert all("two" in heading for heading in headings)


def test_headline_and_table_say_what_the_allocation_says(shown: dict[str, Path]) -> None:
    told = json.loads(shown["allocation"].read_text())
    page = Page(made(shown, "allocation"))
    assert f"{told['makespan']:,} steps" in made(shown, "allocation")
    for number, layer in enumerate(told["layers"]):
        start = page.cells.index(layer["name"]) - 1
        row = page.cells[start : start + 10]
        expected = [
            number,
            layer["name"],
            layer["windows"],
            layer["arrays_per_copy"],
            layer["copies"],
            layer["arrays"],
            layer["batches"],
            layer["start"],
            layer["finish"],
            layer["finish"] - layer["start"] - layer["batches"],
        ]
        assert row == [f"{v:,}" if isinstance(v, int) else v for v in expected]


def test_nothing_is_loaded(shown: dict[str, Path]) -> None:
    page = Page(made(shown, *KINDS))
    for tag, attributes in page.tags:
        assert "src" not in attributes, tag
        assert tag != "link"
        assert (attributes.get("href") or "#").startswith("#")


def test_without_the_network_the_page_says_so(shown: dict[str, Path]) -> None:
    page = made(shown, "allocation", network=False)
    assert "--network" in page
    assert "Buffer demand" not in page
    assert "Buffer demand" in made(shown, "allocation", "simulation", network=False).split("<h2")[1]


def test_without_the_network_nothing_is_proven(shown: dict[str, Path], tmp_path: Path) -> None:
    """A file that claims a proof: its bound cannot be looked at, with a simulation beside it neither."""
    document = json.loads(shown["allocation"].read_text())
    claimed = {"lower_bound": document["objective_value"], "gap": 0.0, "proof": "proven optimal: it is"}
    path = tmp_path / "claims.json"
    path.write_text(json.dumps(document | claimed | {"status": "optimal", "stopped": "proof"}))
    for beside in ([], [shown["simulation"]]):
        page = report([path, *beside])
        assert "proven optimal" not in page
        assert "not checked" in page
    page = report([path], networks=[str(shown["network"])])
    assert "proven optimal: it is" in page
    assert "not checked" not in page


@pytest.mark.parametrize("kind", ["allocation", "simulation"])
@pytest.mark.parametrize(
    ("told", "change"),
    [
        ("an interval of", lambda file: {"interval": file["makespan"] + 1}),
        ("its last layer finishes at", lambda file: {"makespan": file["makespan"] + 1}),
        ("its copies come to", lambda file: with_layer(file, copies=file["layers"][0]["windows"])),
        ("before its batches can", lambda file: with_layer(file, start=file["layers"][0]["finish"])),
    ],
)
def test_without_the_network_numbers_that_contradict_are_refused(
    kind: str, told: str, change: Callable[[Any], Any], shown: dict[str, Path], tmp_path: Path
) -> None:
    document = json.loads(shown[kind].read_text())
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document | change(document)))
    with pytest.raises(SpecError, match=f"{told}.*the file was changed"):
        report([path])


def with_layer(document: Any, **changed: int) -> Any:
    """Return the layers of a file, the first of them changed."""
    first, *others = document["layers"]
    return {"layers": [first | changed, *others]}


def test_same_input_same_bytes_in_any_process(shown: dict[str, Path]) -> None:
    program = (
        "import sys; from rramalloc import report; "
        "sys.stdout.write(report(sys.argv[2:], networks=[sys.argv[1]]))"
    )
    files = [str(shown["network"]), *(str(shown[kind]) for kind in KINDS)]
    other = subprocess.run(
        [sys.executable, "-c", program, *files], env=os.environ | {"PYTHONHASHSEED": "1"},
        capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    assert other.stdout == report(files[1:], networks=files[:1]).encode()


def test_names_stay_text(shown: dict[str, Path], hostile: dict[str, Path]) -> None:
    plain = [tag for tag, _ in Page(made(shown, *KINDS)).tags]
    page = Page(made(hostile, *KINDS))
    tags = [tag for tag, _ in page.tags]
    assert plain.count("script") == tags.count("script")
    assert "img" not in tags
    charts = [a for tag, a in page.tags if tag == "script" and a.get("type") == "application/json"]
    assert tags.count("script") == len(charts) + 2
    for name in HOSTILE[:5]:
        assert name in page.cells
    for tag, attributes in page.tags:
        assert not any(attribute.startswith("on") for attribute in attributes), tag


def test_a_plan_of_segments_is_shown(tmp_path: Path) -> None:
    """As a record and as a file alike, with names as text: its segments, and plain cuts beside them."""
    names = (HOSTILE[0], HOSTILE[1], "third")
    network = write_network(tmp_path / "n.json", names)
    tables = load_hardware("plain").to_dict() | {
        "timing": {"step_ns": 10.0},
        "write": {"write_ns_per_row": 5.0, "write_pj": 1.0},
        "energy": {"read_pj": 2.0, "leakage_mw": 1.0},
    }
    hardware = Hardware.model_validate(tables)
    plan = rramalloc.optimize_reload(network, "x0.7", hardware=hardware, inputs=4, work=2)
    plan.save(tmp_path / "plan.json")
    page = report([tmp_path / "plan.json"])
    assert page.count("<figure") == report([plan]).count("<figure") == 1
    assert not any(name in page for name in names[:2])
    assert "in segments" in page
    assert escaped(names[0]) in page
    for words in ("Per input", "4 inputs per loading", "greedy", "layers", "Energy"):
        assert words in page


BAD = {
    "empty": b"",
    "no format": b"{}",
    "another format": b'{"format": "rramalloc-network/1", "nodes": []}',
    "not UTF-8": b"\xff\xfe{}",
    "fields are missing": b'{"format": "rramalloc-allocation/2"}',
    "a lone surrogate": b'{"format": "rramalloc-chiplet-cost/1", "total": 1, "unit": "ns", "groups": '
    b'[{"operators": {"\\ud800": {"compute": 1, "communication": 0, "routing": 0, "cost": 1}}, "cost": 1}], '
    b'"between": [], "edges": []}',
    "lists that do not fit each other": b'{"format": "rramalloc-chiplet-cost/1", "total": 1, "unit": "ns", '
    b'"groups": [{"operators": {}, "cost": 1}, {"operators": {}, "cost": 1}], "between": [], "edges": []}',
    "NaN": b'{"format": "rramalloc-chiplet-cost/1", "total": NaN}',
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_bad_files_are_typed_errors_and_leave_nothing(content: bytes, tmp_path: Path) -> None:
    path, output = tmp_path / "bad.json", tmp_path / "report.html"
    path.write_bytes(content)
    with pytest.raises((FileError, SpecError), match=r"bad\.json"):
        report([path], output)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bad.json"]


def test_a_changed_allocation_is_refused(shown: dict[str, Path], tmp_path: Path) -> None:
    document = json.loads(shown["allocation"].read_text())
    document["makespan"] -= 1
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document))
    with pytest.raises(SpecError, match="the file was changed"):
        report([path], networks=[str(shown["network"])])


@pytest.mark.parametrize("value", [0, 2**53])
def test_extreme_numbers_make_a_page_or_an_error(value: int, shown: dict[str, Path], tmp_path: Path) -> None:
    for kind in KINDS:
        document = json.loads(shown[kind].read_text())
        for rows in ("layers", "rows", "points", "arrays"):
            for row in document[rows] if isinstance(document.get(rows), list) else []:
                row.update({key: value for key, old in row.items() if type(old) is int})
        document |= {key: value for key in ("makespan", "interval", "budget") if key in document}
        path = tmp_path / f"{kind}.json"
        path.write_text(json.dumps(document))
        try:
            assert len(report([path])) < SIZE_LIMIT_BYTES
        except RramallocError:
            continue


def test_large_results_keep_to_the_size(tmp_path: Path) -> None:
    """DenseNet-121, and a chain of 1,000 stages, with everything that their networks tell."""
    names = tuple(f"stage_{number:04d}_with_a_long_name" for number in range(1000))
    network = write_network(tmp_path / "thousand.json", names, size=16)
    least = rramalloc.inspect(network).minimum
    thousand = rramalloc.optimize(network, arrays=least + 500, method="uniform", work=0)
    page = report([thousand], networks=[str(network)])
    assert len(page.encode()) <= SIZE_LIMIT_BYTES
    assert all(name in page for name in (names[0], names[-1]))
    dense = rramalloc.optimize("densenet121", arrays=4000, method="uniform", work=0)
    assert len(report([dense]).encode()) <= SIZE_LIMIT_BYTES


def test_a_tuning_has_its_choices_and_its_course(tmp_path: Path) -> None:
    """Expected values are those of the answers themselves."""
    simulator = OwnClocks((3, 40, 7), (0, 0, 2))
    tuning = rramalloc.tune(NETWORK, 24, simulator, evaluations=16)
    own = OwnChoice(figure=2 * tuning.figure, arrays=9, copies=dict.fromkeys(GRAPH.names, 1))
    tuning = tuning.model_copy(update={"own": own})
    path = tmp_path / "tuning.json"
    tuning.save(path)
    text = report([path])
    assert report([tuning]).count("<h2") == text.count("<h2")
    cells = Page(text).cells
    at = cells.index("own choice of the tool")
    assert [float(cell.replace(",", "")) for cell in cells[at + 1 : at + 4]] == pytest.approx(
        [2 * tuning.figure, 9, 0.5], rel=5e-4
    )
    at = cells.index("tuned")
    assert float(cells[at + 1].replace(",", "")) == pytest.approx(tuning.figure, rel=5e-4)
    assert cells[at + 2] == str(tuning.allocation.arrays.used)
    plain = [cell.replace(",", "") for cell in cells]
    numbers = [float(cell) for cell in plain if cell.replace(".", "", 1).isdigit()]
    for row in tuning.judged:
        assert pytest.approx(row.figure, rel=5e-4) in numbers
    best = tuning.plot.figures().panels[0].layers[1].data["best"]
    figures = [row.figure for row in tuning.judged if row.figure is not None]
    assert best == [min(figures[: number + 1]) for number in range(len(figures))]


def test_a_folder_of_a_sweep_is_shown_up_to_a_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hash is that of the JSON that `sweep` prints, which is never whole in memory."""
    spec = {"networks": "alexnet", "arrays": [300, 400, 500], "methods": "none", "work": 1}
    made = rramalloc.sweep(spec, tmp_path / "rows", jobs=1)
    text = "".join(made.json_parts())
    assert text == to_json(made.to_dict())
    assert read_source(tmp_path / "rows").sha256 == hashlib.sha256(text.encode()).hexdigest()
    monkeypatch.setattr("rramalloc.commands.report.report.MOST_ROWS", 2)
    with pytest.raises(SpecError, match="has 3 points, the limit is 2"):
        rramalloc.report([tmp_path / "rows"])


def test_a_placed_allocation_shows_its_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layers of one array in a tile each: the page draws the tiles that the file keeps.

    They are placed once, whatever the details that are tried; without the room `place` they are left out.
    """
    nodes: list[dict[str, Any]] = [
        {"name": "in", "op": "input", "shape": [1, 2, 2]},
        {"name": "a", "op": "conv", "inputs": ["in"], "out_channels": 4, "kernel": 1},
        {"name": "b", "op": "conv", "inputs": ["a"], "out_channels": 4, "kernel": 1},
    ]
    document = {"format": "rramalloc-network/1", "name": "two", "source": "test", "nodes": nodes}
    (tmp_path / "two.json").write_text(json.dumps(document))
    values = {"chip.arrays_per_tile": 1, "chip.tiles": [1, 2]}
    placed = rramalloc.optimize(
        document, hardware="isaac-todaes", set_values=values, placed=True, progress=False, work=1
    )
    placed.save(tmp_path / "a.json")
    page = rramalloc.report([tmp_path / "a.json"], networks=[str(tmp_path / "two.json")])
    assert "2 arrays in 2 tiles on 1 chip, coloured by layer" in page
    placed.model_copy(update={"places": None}).save(tmp_path / "b.json")
    assert "coloured by layer" not in rramalloc.report(
        [tmp_path / "b.json"], networks=[str(tmp_path / "two.json")]
    )
    loads = list[str]()

    def counted(name: str, *where: str) -> Any:
        loads.append(name)
        return load_from(name, *where)

    asked: dict[str, Any] = {"networks": [str(tmp_path / "two.json")]}
    of_page = "rramalloc.commands.report.report."
    monkeypatch.setattr(f"{of_page}load_from", counted)
    with monkeypatch.context() as patched:
        patched.setattr(f"{of_page}SIZE_LIMIT_BYTES", 1)
        with pytest.raises(SpecError, match="even with the least detail"):
            rramalloc.report([tmp_path / "a.json"], **asked)
    assert loads == ["place"]
    left = {name: room for name, room in rooms().items() if name != "place"}
    monkeypatch.setattr(f"{of_page}rooms", lambda: left)
    assert "coloured by layer" not in rramalloc.report([tmp_path / "a.json"], **asked)
    assert loads == ["place"]
