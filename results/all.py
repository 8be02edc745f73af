"""Every page of results/ from one command, or those that are named.

python results/all.py [--only NAME ...] [--quick] [--stale]

A case that is measured is kept in .cache/results/, so that a run that was stopped goes on where it was; where
the code that decides a page has changed, the page is measured anew. Pages are written when all their cases
are there, then results/README.md, which lists them. --quick: the first case of each page, written below
.cache/results/quick/. --stale: list pages that are older than the code that decides them; measure nothing.
Pages that need files or packages that are not there say so, and are left out.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pages
import rows
from pages import RESULTS, WITH_LINKS, Case, Study

CACHE = RESULTS.parent / ".cache" / "results"
PACKAGE = RESULTS.parent / "rramalloc"
WORKERS = 2
BUDGET_MIN: Mapping[str, float] = {
    "comparison": 4,
    "search": 18,
    "crosslayer": 2,
    "clocks": 10,
    "limits": 3,
    "kinds": 4,
    "tiny": 2,
    "modes": 12,
    "size": 1,
    "bits": 3,
    "sensitivity": 3,
    "published": 2,
    "bound": 5,
    "growth": 4,
    "loop": 2,
    "reload": 4,
    "timing": 2,
    "evaluate": 2,
    "importers": 4,
    "peers": 12,
    "peers_counts": 6,
    "peers_tuned": 5,
    "verify": 1,
    "placement": 3,
    "links": 4,
    "rates": 1,
    "decoding": 1,
}
"""All pages, in the order in which they are listed, and the minutes that each may take on two cores."""


class Kept:
    """Cases of a page that are measured, one JSON line each below a line with the code that decided them."""

    def __init__(self, path: Path, decided_by: Mapping[str, str]) -> None:
        self.path = path
        self.lines: dict[Case, dict[str, Any]] = {}
        head: dict[str, Any] = {"decided_by": dict(decided_by)}
        stored = list(_whole_lines(path))
        if stored[:1] == [head]:
            self.lines = {tuple(line["case"]): line for line in stored[1:]}
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(line) + "\n" for line in [head, *self.lines.values()])
        path.write_text(text, encoding="utf-8")

    def add(self, case: Case, seconds: float, measured: Sequence[Any]) -> None:
        """Keep the rows of a case."""
        line = {"case": list(case), "seconds": seconds, "rows": [asdict(row) for row in measured]}
        self.lines[case] = line
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def minutes(self, cases: Sequence[Case]) -> float:
        """Return what these cases took, one after another."""
        return sum(float(self.lines[case]["seconds"]) for case in cases) / 60

    def rows(self, cases: Sequence[Case], kind: type[Any]) -> list[Any]:
        """Return the rows of these cases in their order."""
        return [kind(**row) for case in cases for row in self.lines[case]["rows"]]


def _whole_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file that were written to their end."""
    if path.exists():
        for text in path.read_text("utf-8").splitlines():
            try:
                yield json.loads(text)
            except json.JSONDecodeError:  # the run was killed while it wrote
                return


def study_of(name: str) -> Study:
    """Return the study of a page."""
    study: Study = importlib.import_module(name).STUDY
    return study


@cache
def digest(folder: str) -> str:
    """Return the digest of a folder or file of the package: syntax trees without docstrings, other files as
    they are. A folder is without `WITH_LINKS`, which pages name where they run it.
    """
    top = PACKAGE / folder
    hashed = hashlib.sha256()
    for path in [top] if top.is_file() else sorted(set(top.rglob("*")) - {PACKAGE / WITH_LINKS}):
        if path.suffix == ".py":
            hashed.update(without_docstrings(path.read_text("utf-8")).encode())
        elif path.suffix in (".toml", ".json"):
            hashed.update(path.read_bytes())
    return hashed.hexdigest()[:12]


def without_docstrings(source: str) -> str:
    """Return the syntax tree of a source as text."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            kept = [part for part in node.body if not _is_text(part)]
            node.body = kept or [ast.Pass()]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def digests(study: Study) -> dict[str, str]:
    """Return the digest of everything that decides a page."""
    return {folder: digest(folder) for folder in study.decided_by}


def measured(name: str, case: Case) -> tuple[float, list[Any]]:
    """Return how many seconds a case took, and its rows."""
    begun = time.perf_counter()
    found = list(study_of(name).measure(*case))
    return time.perf_counter() - begun, found


def make(name: str, *, quick: bool) -> bool:
    """Measure what is missing of a page and write it; True if it is whole."""
    study = study_of(name)
    folder = CACHE / "quick" if quick else RESULTS
    reason = study.missing()
    if reason:
        print(f"{name}: left out: {reason}", flush=True)
        return True
    cases = [tuple(case) for case in study.cases][: 1 if quick else None]
    decided_by = digests(study)
    kept = Kept(CACHE / f"{name}.jsonl", decided_by)
    missing = [case for case in cases if case not in kept.lines]
    whole = _measure(name, missing, kept, workers=1 if study.alone or quick else WORKERS)
    if not whole:
        return False
    found, minutes = kept.rows(cases, study.row), kept.minutes(cases)
    folder.mkdir(parents=True, exist_ok=True)
    for figure, chart in study.figures(found).items():
        chart.save(folder / figure)
    rows.write(folder / f"{name}.csv", found, study.row, decided_by)
    page = pages.text_of(name, study, found, decided_by, minutes)
    (folder / f"{name}.md").write_text(page, encoding="utf-8")
    print(f"{name}: {len(cases)} cases, {minutes:.1f} minutes of work", flush=True)
    return True


def _measure(name: str, missing: Sequence[Case], kept: Kept, *, workers: int) -> bool:
    """Keep each case as soon as it is measured; a case that fails leaves the others. True if none failed."""
    failed, ended = _measure_at_once(name, missing, kept, workers)
    for case in ended:  # a process that ends takes along those beside it
        for left in _measure_at_once(name, [case], kept, workers=1):
            failed.extend(left)
    return not failed


def _measure_at_once(
    name: str, missing: Sequence[Case], kept: Kept, workers: int
) -> tuple[list[Case], list[Case]]:
    """Return the cases that failed, and those whose processes ended."""
    failed, ended = [], []
    with ProcessPoolExecutor(workers, initializer=_in_results) as pool:
        running = {pool.submit(measured, name, case): case for case in missing}
        for done in as_completed(running):
            case = running[done]
            said = f"{name} {' '.join(map(str, case))}"
            try:
                kept.add(case, *done.result())
            except BrokenProcessPool as error:
                ended.append(case)
                print(f"{said}: {error}", flush=True)
            except Exception:  # noqa: BLE001 - whatever a case raises, the others are measured
                failed.append(case)
                traceback.print_exc()
            left = sum(other not in kept.lines for other in missing)
            print(f"{said}: {left} of {len(missing)} left", flush=True)
    return failed, ended


def _in_results() -> None:
    """Let a worker find the scripts beside this one, and end when the run that started it was killed."""
    sys.path.insert(0, str(RESULTS))
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()


def _follow(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def write_list() -> None:
    """Write results/README.md from the pages."""
    lines = [
        "# Results",
        "",
        "Each page has a question, its answer and how it was made. `python results/all.py` makes all of them",
        "again, `--only NAME` one; `--stale` lists those that are older than the code that decides them.",
        "",
    ]
    table = [["page", "question", "main figure"]]
    for name in BUDGET_MIN:
        page = RESULTS / f"{name}.md"
        if rows.decided_by(page.with_suffix(".csv")):
            title, question, figure = pages.summary_of(page)
            table.append([f"[{title}]({name}.md)", question, figure])
    text = "\n".join([*lines, *pages.markdown(table)])
    (RESULTS / "README.md").write_text(text, encoding="utf-8")


def stale() -> Iterator[str]:
    """Yield a line for each page that is older than what decides it."""
    for name in BUDGET_MIN:
        before = rows.decided_by(RESULTS / f"{name}.csv")
        now = digests(study_of(name))
        changed = [folder for folder, value in now.items() if before.get(folder) != value]
        if changed:
            yield (
                f"{name}: older than {', '.join(changed)}" if before else f"{name}: not measured in this form"
            )


def main() -> int:
    """Make the pages that are wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=BUDGET_MIN, default=list(BUDGET_MIN), metavar="NAME")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--stale", action="store_true")
    asked = parser.parse_args()
    if asked.stale:
        print("\n".join(stale()) or "no page is older than the code that decides it")
        return 0
    whole = [make(name, quick=asked.quick) for name in asked.only]
    if not asked.quick:
        write_list()
    return 0 if all(whole) else 1


if __name__ == "__main__":
    sys.exit(main())
