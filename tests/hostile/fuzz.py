"""Hostile inputs by the thousand: valid files of every kind with one field changed, and bad options.

`python tests/hostile/fuzz.py` runs 5,000 of them and says what became of them; `test_fuzz.py` runs some in
the suite. A case is a seed. It holds if the command ends with 0, 1 or 2 within 10 s, prints no traceback and
no internal error, leaves its inputs as they are, and its output whole: the old or the new.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import random
import shlex
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import onnx
import program
from hostile.documents import DOCUMENTS, HARDWARE, onnx_bytes, toml_of

LIMIT_S, HANG_S = 10, 120
"""Most seconds of the processor, and of the clock on a busy machine."""
_NUMBERS = "0.5 -0.0 1e300 1.7e308 5e-324 1e-15 1e13 nan inf -inf"
EXTREMES = (0, -1, 1, 3, 2**31 - 1, 2**53 + 1, 2**63, 10**18, 10**400, *map(float, _NUMBERS.split()))
_STRANGE = ("x" * 100_000, "\x00", "\x1b[31mred", "\u202e", "\ud800")
STRANGE = ("", " ", *_STRANGE, *"../../x =1+1 c1 input 1 nan".split())
VALUES: tuple[Any, ...] = (
    None, True, *EXTREMES, -(10**18), "x", "n" * 2000, [], {}, [[]], [1, 2], [1] * 100, {"op": "conv"},
)  # fmt: skip
TWICE = "\u2060twice"
"""Behind a key that is to be written a second time, which no dict of Python can say."""
WRITTEN_TWICE = b'\\u2060twice"'
OLD = b'{"old": true}\n'
ON, AT = "--hardware h.toml", "--allocation a.json"
FORTY = "n.json --arrays 40 --work 1"
SEGMENTS = "n.json --arrays 8 --work 1 --reload --inputs 2"
MAKESPAN = r"""'sed -n "s/^  \"makespan\": \([0-9]*\),/\1/p" {allocation}'"""
"""A simulator that says what the allocation says."""
RESULTS = {
    "a.json": f"optimize {FORTY} {ON}",
    "placed.json": f"place n.json {AT} {ON} --work 1",
    "simulated.json": f"simulate n.json {AT}",
    "inspected.json": f"inspect n.json {ON}",
    "verified.json": f"verify n.json {AT}",
    "compared.json": f"compare {FORTY} --methods none,interval",
    "front.json": f"pareto {FORTY}",
    "measured.json": "latency measure n.json --device simulated --most 20",
    "measured.csv": "latency measure n.json --device simulated --most 20",
    "plan.json": f"optimize {SEGMENTS} {ON}",
    "folded.json": "fold n.json",
    "filter.json": "fold --filter 64,6,6,4 --stride 2,2 --align 64",
    "evaluated.json": f"evaluate n.json {ON} --enumerate 2,2",
    "cost.json": "chiplet cost pair.json",
    "schedule.json": f"chiplet optimize n.json {ON} --work 1",
    "tuned.json": f"tune n.json --arrays 40 {ON} --simulator {MAKESPAN} --evaluations 3 --store tune.sqlite",
    "swept": "sweep s.toml --jobs 1",
}
"""Files that commands make, in this order, for others to read."""
_READ = f"""
n.json: inspect n.json
n.json: optimize n.json --arrays x2 --work 1
n.json: optimize n.json --arrays x2 --work 1 --mapping sdk
n.json: optimize n.json --arrays x2 --work 1 --fc crossbar
n.json: optimize {FORTY} --hardware own.toml
n.json: convert n.json
n.json: fold n.json
n.json: compare n.json --arrays x2 --methods none,interval
n.json: latency plan n.json
n.json: simulate n.json --allocation bare.json
n.json: chiplet optimize n.json {ON} --work 1
n.json: evaluate n.json {ON} --strategies strategy.json
n.json: verify n.json --allocation bare.json
HARDWARE: inspect n.json --hardware HARDWARE
HARDWARE: optimize {FORTY} --hardware HARDWARE
HARDWARE: optimize {FORTY} --hardware HARDWARE --mapping sdk
HARDWARE: optimize {FORTY} --hardware HARDWARE --placed
HARDWARE: optimize {FORTY} --hardware HARDWARE --objective edp
HARDWARE: optimize {FORTY} --hardware HARDWARE --objective interval
HARDWARE: optimize n.json --work 1 --hardware HARDWARE
HARDWARE: optimize {SEGMENTS} --hardware HARDWARE
HARDWARE: place n.json --allocation bare.json --hardware HARDWARE --work 1
HARDWARE: chiplet optimize n.json --hardware HARDWARE --work 1
HARDWARE: evaluate n.json --hardware HARDWARE --enumerate 2,2
HARDWARE: compare {FORTY} --hardware HARDWARE --methods none,interval
HARDWARE: pareto {FORTY} --hardware HARDWARE --objective latency_ns
a.json: simulate n.json {AT}
a.json: verify n.json {AT}
a.json: place n.json {AT} --work 1
a.json: report a.json
a.json: export n.json {AT} --to json
a.json: export n.json {AT} --to csv
a.json: export n.json {AT} --to pimsyn --check
bare.json: simulate n.json --allocation bare.json
bare.json: place n.json --allocation bare.json {ON} --work 1
bare.json: verify n.json --allocation bare.json --hardware own.toml
bare.json: evaluate n.json {ON} --allocations bare.json
blocks.json: simulate n.json --allocation blocks.json
blocks.json: verify n.json --allocation blocks.json
placed.json: verify n.json {AT} --placement placed.json
placed.json: export n.json {AT} --placement placed.json --to csv
placed.json: report placed.json
placed.json: chiplet cost n.json {AT} --placement placed.json
schedule.json: report schedule.json
schedule.json: chiplet cost schedule.json
pair.json: chiplet cost pair.json
pair.json: chiplet optimize pair.json --work 1
pair.json: chiplet cost pair.json pair.json
strategy.json: evaluate n.json {ON} --strategies strategy.json
MEASURED: latency estimate n.json --table MEASURED
MEASURED: optimize {FORTY} {ON} --latency-table MEASURED
MEASURED: optimize {FORTY} --hardware own.toml --latency-table MEASURED
measured.json.samples.jsonl: latency fit measured.json.samples.jsonl --method both
bits.csv: optimize {FORTY} --bits bits.csv --sensitivity 2 {ON}
t.csv: inspect t.csv
t.csv: optimize t.csv --arrays x2 --work 1
t.csv: convert t.csv
pimcomp.json: inspect pimcomp.json
pimcomp.json: optimize pimcomp.json --arrays x2 --work 1
m.onnx: inspect m.onnx
m.onnx: convert m.onnx
m.onnx: verify m.onnx --allocation none.json
s.toml: sweep s.toml --jobs 1
swept: report swept
swept: sweep s.toml --jobs 1 -o swept
swept: sweep s.toml --status -o swept
tune.sqlite: {RESULTS["tuned.json"]}
REPORTED: report REPORTED
"""
_KINDS = {
    "HARDWARE": tuple(HARDWARE),
    "MEASURED": ("measured.json", "measured.csv"),
    "REPORTED": tuple(
        f"{name}.json" for name in "simulated compared front plan folded filter evaluated cost tuned "
        "inspected verified".split()
    ),
}  # fmt: skip


def _commands() -> dict[str, list[tuple[str, ...]]]:
    commands: dict[str, list[tuple[str, ...]]] = {}
    for line in _READ.strip().splitlines():
        kind, _, command = line.partition(": ")
        for name in _KINDS.get(kind, (kind,)):
            commands.setdefault(name, []).append(tuple(shlex.split(command.replace(kind, name))))
    return commands


COMMANDS = _commands()
"""The commands that read a file."""
_ASKED = {
    "optimize": "arrays crossbar mapping fc objective target target-ns method seed work time-limit gap "
    "input-shape input-value format hardware figure",
    "compare": "arrays methods seeds seed work crossbar",
    "pareto": "arrays objective baselines work seed",
    "inspect": "crossbar hardware mapping format input-shape input-value",
    "fold": "crossbar filter stride align padding groups input",
}
OPTIONS = {name: tuple(f"--{word}" for word in words.split()) for name, words in _ASKED.items()}
_WORDS = (
    "-1 0 1 40 x2 x0 x1e9 X1.5 1e3 nan inf -inf ٣ 128x128 0x128 1x1 128x 99999999999x1 a,b , none,none auto "
    "� ../.. / /dev/null /dev/full n.json NaN 1_000 0x10 +5 3,3 1,1,1,1 64,6,6,4 a=1,3,8,8"
)
TEXTS = (*_WORDS.split(" "), "", " ", "\x00", "1" * 30, "1" * 5000, "é" * 300)


class Ending(NamedTuple):
    """What became of a case: "served", "refused", or a fault; and what the command said."""

    verdict: str
    said: str


def run(arguments: Sequence[str]) -> tuple[int, str]:
    """Exit code and messages of a command in this process; 124 if it hangs."""

    def stop(number: int, frame: object) -> None:
        raise SystemExit(124)

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(HANG_S)
    try:
        done = program.run(*arguments)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return done.code, done.err


def prepare(folder: Path) -> None:
    """Write the undamaged files."""
    for name, text in DOCUMENTS.items():
        (folder / name).write_text(text)
    (folder / "m.onnx").write_bytes(onnx_bytes())
    with contextlib.chdir(folder):
        for name, command in RESULTS.items():
            code, said = run((*shlex.split(command), "-o", name, "-q"))
            assert code == 0, (name, said)


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    items: Any = ()
    if isinstance(document, dict):
        items = document.items()
    elif isinstance(document, list):
        items = enumerate(document)
    for key, value in list(items):
        yield document, key
        yield from places(value)


def _json(document: Any) -> bytes:
    return json.dumps(document).encode()


def changed(document: Any, chance: random.Random) -> Any:
    """A copy with one field deleted, doubled, of another type or an extreme value, exchanged, or added."""
    document = copy.deepcopy(document)
    kinds: dict[object, list[tuple[Any, Any]]] = {}
    for container, key in places(document):  # each kind of field as often as the others, not each entry
        kinds.setdefault(key if isinstance(container, dict) else type(container[key]), []).append(
            (container, key)
        )
    if not kinds:
        return chance.choice(VALUES)
    container, key = chance.choice(kinds[chance.choice(list(kinds))])
    value = container[key]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match chance.randrange(5, 8) if is_number and chance.random() < 0.5 else chance.randrange(9):
        case 0:
            del container[key]
        case 1 if isinstance(container, dict):
            container[f"{key}{TWICE}"] = value
        case 1:
            container.append(value)
        case 2 if isinstance(container, dict):
            container["unknown"] = value
        case 3:
            others = [(c, k) for c, k in places(document) if type(c[k]) is type(value) and c[k] != value]
            if others:
                other, place = chance.choice(others)
                container[key], other[place] = copy.deepcopy(other[place]), copy.deepcopy(value)
        case 4:
            container[key] = chance.choice(STRANGE)
        case 5 | 6 | 7:
            container[key] = chance.choice(EXTREMES)
        case _:
            container[key] = copy.deepcopy(chance.choice(VALUES))
    return document


def changed_csv(text: str, chance: random.Random) -> str:
    """A copy of a table with one cell or row changed."""
    rows = [line.split(",") for line in text.splitlines()]
    row = chance.choice(rows)
    at = chance.randrange(len(row))
    match chance.randrange(6):
        case 0:
            del row[at]
        case 1:
            row.insert(at, row[at])
        case 2:
            rows.insert(chance.randrange(len(rows)), list(row))
        case 3:
            row[at] = chance.choice(chance.choice(rows))
        case 4:
            row[at] = str(chance.choice(STRANGE))
        case _:
            row[at] = str(chance.choice(EXTREMES))
    return "\n".join(map(",".join, rows)) + "\n"


def changed_message(message: Any, chance: random.Random) -> None:
    """Change one field of a protobuf message in place."""
    found = []
    waiting = [message]
    while waiting:
        inner = waiting.pop()
        for field, value in inner.ListFields():
            found.append((inner, field))
            if field.message_type is not None:
                waiting += list(value) if hasattr(value, "__len__") else [value]
    inner, field = chance.choice(found)
    value = getattr(inner, field.name)
    if chance.random() < 0.2 or field.message_type is not None:
        inner.ClearField(field.name)
        return
    numbers = (0, 1, -1, 2, 7, 2**31 - 1, -(2**31), 2**62, 1e300)
    words = (*numbers, "x", "c", "w1", b"", b"x" * 1000, *STRANGE)
    for _ in range(20):
        given = chance.choice(words)
        try:
            if hasattr(value, "append"):
                value[chance.randrange(len(value))] = given
            else:
                setattr(inner, field.name, given)
            return
        except (TypeError, ValueError):
            continue


def changed_store(path: Path, chance: random.Random) -> None:
    """Change one field of the JSON in a random cell of a database."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = chance.choice(tables)
        names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        name = chance.choice([each for each in names if each in ("row", "document")] or names)
        cells = list(database.execute(f"SELECT rowid, {name} FROM {table}"))  # noqa: S608
        place, text = chance.choice(cells)
        with contextlib.suppress(ValueError, TypeError):
            text = _json(changed(json.loads(text), chance)).decode()
        database.execute(f"UPDATE {table} SET {name} = ? WHERE rowid = ?", (text, place))  # noqa: S608


def bitten(content: bytes, chance: random.Random) -> bytes:
    """A copy that is cut off, has bytes changed or added, or has a part twice."""
    place = chance.randrange(len(content))
    match chance.randrange(4):
        case 0:
            return content[:place]
        case 1:
            changed = bytearray(content)
            for _ in range(chance.randrange(1, 20)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            return bytes(changed)
        case 2:
            return content[:place] + chance.randbytes(8) + content[place:]
    return content[:place] + content[chance.randrange(len(content)) :]


def damage(path: Path, seed: int) -> None:
    """Change one field of a file as its kind has fields, or once in ten times its bytes."""
    chance = random.Random(seed)
    if path.is_dir() or path.suffix == ".sqlite":
        changed_store(path / "sweep.sqlite" if path.is_dir() else path, chance)
        return
    content = path.read_bytes()
    if chance.random() < 0.1:
        path.write_bytes(bitten(content, chance))
        return
    match path.suffix:
        case ".json":
            path.write_bytes(_json(changed(json.loads(content), chance)).replace(WRITTEN_TWICE, b'"'))
        case ".jsonl":
            lines = content.splitlines()
            at = chance.randrange(len(lines))
            lines[at] = _json(changed(json.loads(lines[at]), chance)).replace(WRITTEN_TWICE, b'"')
            path.write_bytes(b"\n".join(lines))
        case ".toml":
            text = toml_of(changed(tomllib.loads(content.decode()), chance))
            path.write_text(text.replace(TWICE, "").replace("NaN", "nan").replace("Infinity", "inf"))
        case ".csv":
            path.write_bytes(changed_csv(content.decode(), chance).encode(errors="surrogatepass"))
        case ".onnx":
            model = onnx.load_from_string(content)
            changed_message(model, chance)
            path.write_bytes(model.SerializeToString())
        case _:
            path.write_bytes(bitten(content, chance))


def command_of(seed: int, folder: Path) -> tuple[str, ...]:
    """Damage a file in `folder`, or choose a bad option; the command to run there."""
    chance = random.Random(seed)
    if chance.random() < 0.15:
        name = chance.choice(list(OPTIONS))
        base = {"optimize": "--arrays 40 --work 2", "compare": "--arrays 40 --methods none",
                "pareto": "--arrays 30 --work 2"}.get(name, "").split()  # fmt: skip
        return (name, "n.json", *base, chance.choice(OPTIONS[name]), chance.choice(TEXTS))
    name = chance.choice(list(COMMANDS))
    damage(folder / name, seed)
    return chance.choice(COMMANDS[name])


def with_target(words: tuple[str, ...], target: str) -> tuple[str, ...]:
    """Return a command that writes its result to `target` and says nothing of its progress."""
    if words[:2] == ("latency", "plan"):
        return words
    if words[0] == "convert":
        return (*words, f"{target.removesuffix('.json')}.json", "-q")
    return (*words, "-q") if "-o" in words else (*words, "-o", target, "-q")


def try_case(seed: int, prepared: Path, folder: Path) -> Ending:
    """Run a case in a copy of the prepared folder."""
    shutil.copytree(prepared, folder)
    try:
        words = command_of(seed, folder)
        target = {"sweep": "out", "report": "out.html"}.get(
            words[0], "out.csv" if "csv" in words else "out.json"
        )
        words = with_target(words, target)
        if target != "out":
            (folder / target).write_bytes(OLD)
        before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        before = {name: content for name, content in before.items() if not name.startswith("tune.sqlite")}
        begun_s = time.process_time()
        with contextlib.chdir(folder):
            code, said = run(words)
        took_s = time.process_time() - begun_s
        verdict = _verdict(code, said, before, folder, target)
        if took_s > LIMIT_S and verdict in ("served", "refused"):
            verdict = f"takes {took_s:.0f} s"
        return Ending(verdict, f"{' '.join(words)[:300]}\n{said[-1500:]}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _verdict(code: int, said: str, before: dict[str, bytes], folder: Path, target: str) -> str:
    if code == 124:
        return "hangs"
    if "Traceback" in said:
        return "traceback"
    if "internal error" in said:
        return "internal error"
    if code not in (0, 1, 2) or (code and not said):
        return f"exit {code}"
    for name, content in before.items():
        path = folder / name
        if not path.exists() or (name != target and path.read_bytes() != content):
            return f"lost {name}"
    if target != "out":
        written = (folder / target).read_bytes()
        if written != OLD and target.endswith(".json"):
            try:
                json.loads(written)
            except ValueError:
                return "half an output"
    if any(path.name.endswith(".tmp") for path in folder.iterdir()):
        return "leaves temporary files"
    return "refused" if code else "served"


def main_() -> None:
    """Run many cases and print what became of them; exit 1 if one does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    chosen = parser.parse_args()
    verdicts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        prepared = Path(scratch) / "prepared"
        prepared.mkdir()
        prepare(prepared)
        for seed in range(chosen.first, chosen.first + chosen.count):
            ending = try_case(seed, prepared, Path(scratch) / "case")
            verdicts[ending.verdict] += 1
            if ending.verdict not in ("served", "refused"):
                print(f"{seed}: {ending.verdict}: {ending.said}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))
    sys.exit(bool(set(verdicts) - {"served", "refused"}))


if __name__ == "__main__":
    main_()
