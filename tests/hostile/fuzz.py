"""Hostile inputs by the thousand: damaged files of every kind, and option values that nobody should give.

`python tests/hostile/fuzz.py` runs 3,000 of them and says what became of them; `test_fuzz.py` runs some in
the suite. A case is a seed. It holds if the command ends with 0, 1 or 2 before a generous limit, prints no
traceback and no internal error, leaves its inputs as they are, and its output whole: the old or the new.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

from hostile.test_mutations import archive, as_json, bitten, damaged, onnx_bytes, torch_program

from rramalloc.cli.main import main

HANG_S = 120
OLD = b'{"old": true}\n'
CHIP = """
name = "chip"
source = "made up"
[crossbar]
wordlines = 128
bitlines = 128
cell_bits = 2
[precision]
weight_bits = 8
input_bits = 8
output_bits = 8
signed = "offset"
[timing]
step_ns = 100.0
[chip]
arrays_per_tile = 16
straddle = true
tiles = [4, 4]
chips = [1, 2]
"""
SWEEP = (
    'networks = ["n.json"]\narrays = ["x1.5", 40]\ncrossbars = ["128x128"]\nmethods = ["interval", "none"]\n'
)
TABLE = (
    "name,c_in,c_out,w_out,h_out,k,s,p,k_pool,s_pool,p_pool\n"
    "c1,3,16,16,16,3,1,1,2,2,0\nc2,16,32,8,8,3,1,1,1,1,0\nc3,32,32,8,8,3,1,1,1,1,0\n"
)
NETWORK = {
    "format": "rramalloc-network/1",
    "name": "small",
    "nodes": [
        {"name": "input", "op": "input", "shape": [3, 12, 12]},
        {"name": "c1", "op": "conv", "inputs": ["input"], "out_channels": 16, "kernel": [3, 3], "pads": 1},
        {"name": "p1", "op": "maxpool", "inputs": ["c1"], "kernel": 2, "stride": 2},
        {"name": "c2", "op": "conv", "inputs": ["p1"], "out_channels": 16, "kernel": 3, "pads": 1},
        {"name": "c3", "op": "conv", "inputs": ["c2"], "out_channels": 16, "kernel": 1},
        {"name": "sum", "op": "add", "inputs": ["c3", "p1"]},
        {"name": "flat", "op": "flatten", "inputs": ["sum"]},
        {"name": "fc", "op": "linear", "inputs": ["flat"], "out_features": 10},
    ],
}
ON = ("--hardware", "h.toml")
RESULTS = {
    "a.json": ("optimize", "n.json", "--arrays", "40", *ON, "--work", "2"),
    "placed.json": ("place", "n.json", "--allocation", "a.json", *ON, "--work", "1"),
    "compared.json": ("compare", "n.json", "--arrays", "40", "--methods", "none,interval", "--work", "2"),
    "front.json": ("pareto", "n.json", "--arrays", "30", "--work", "4"),
    "measured.json": ("latency", "measure", "n.json", "--device", "simulated", "--most", "20"),
}
"""Files that commands make, in this order, for others to read."""
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "n.json": (
        ("inspect", "n.json"),
        ("optimize", "n.json", "--arrays", "x2", "--work", "2"),
        ("convert", "n.json"),
        ("fold", "n.json"),
        ("compare", "n.json", "--arrays", "x2", "--methods", "none,interval"),
        ("optimize", "n.json", "--arrays", "x2", "--work", "2", "--fc", "crossbar"),
    ),
    "h.toml": (
        ("inspect", "n.json", *ON),
        ("optimize", "n.json", "--arrays", "40", *ON, "--work", "2"),
        ("place", "n.json", "--allocation", "a.json", *ON, "--work", "1"),
    ),
    "a.json": (
        ("simulate", "n.json", "--allocation", "a.json"),
        ("verify", "n.json", "--allocation", "a.json"),
        ("place", "n.json", "--allocation", "a.json", "--work", "1"),
        ("report", "a.json"),
        ("export", "n.json", "--allocation", "a.json", "--to", "json"),
        ("export", "n.json", "--allocation", "a.json", "--to", "csv"),
    ),
    "placed.json": (
        ("verify", "n.json", "--allocation", "a.json", "--placement", "placed.json"),
        ("report", "placed.json"),
        ("chiplet", "cost", "n.json", "--allocation", "a.json", "--placement", "placed.json"),
    ),
    "compared.json": (("report", "compared.json"),),
    "front.json": (("report", "front.json"),),
    "measured.json": (
        ("latency", "estimate", "n.json", "--table", "measured.json"),
        ("optimize", "n.json", "--arrays", "40", *ON, "--latency-table", "measured.json", "--work", "2"),
    ),
    "t.csv": (
        ("inspect", "t.csv"),
        ("optimize", "t.csv", "--arrays", "x2", "--work", "2"),
        ("convert", "t.csv"),
    ),
    "m.onnx": (("inspect", "m.onnx"), ("convert", "m.onnx")),
    "m.pt2": (("inspect", "m.pt2"), ("convert", "m.pt2")),
    "s.toml": (("sweep", "s.toml", "--jobs", "1"),),
}
"""The commands that read a file."""
OPTIONS: dict[str, tuple[str, ...]] = {
    "optimize": (
        "--arrays",
        "--crossbar",
        "--mapping",
        "--fc",
        "--objective",
        "--target",
        "--target-ns",
        "--method",
        "--seed",
        "--work",
        "--time-limit",
        "--gap",
        "--input-shape",
        "--format",
        "--hardware",
        "--figure",
    ),
    "compare": ("--arrays", "--methods", "--seeds", "--seed", "--work", "--crossbar"),
    "pareto": ("--arrays", "--objective", "--baselines", "--work", "--seed"),
    "inspect": ("--crossbar", "--hardware", "--mapping", "--format", "--input-shape"),
    "fold": ("--crossbar", "--filter", "--stride", "--align", "--padding", "--groups", "--input"),
}
TEXTS = (
    " ", "-1", "0", "1", "40", "x2", "x0", "x1e9", "X1.5", "1e3", "nan", "inf", "-inf", "٣", "128x128",
    "0x128", "1x1", "128x", "99999999999x1", "a,b", ",", "none,none", "auto", "\x00", "�", "../..", "/",
    "/dev/null", "/dev/full", "n.json", "NaN", "1_000", "0x10", "+5", "3,3", "1,1,1,1", "", "64,6,6,4",
    "a=1,3,8,8", "1" * 30, "1" * 5000, "é" * 300,
)  # fmt: skip


class Ending(NamedTuple):
    """What became of a case: "served", "refused", or a fault; and what the command said."""

    verdict: str
    said: str


@contextlib.contextmanager
def within(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run(arguments: tuple[str, ...]) -> tuple[int, str]:
    """Exit code and messages of a command in this process; 124 if it hangs."""
    out, err = io.StringIO(), io.StringIO()

    def stop(number: int, frame: object) -> None:
        raise SystemExit(124)

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(HANG_S)
    code: Any = 0
    try:
        with (
            mock.patch.object(sys, "argv", ["rramalloc", *arguments]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            main()
    except SystemExit as ended:
        code = ended.code
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return int(code or 0), err.getvalue()


def prepare(folder: Path) -> None:
    """Write the undamaged files."""
    (folder / "n.json").write_text(json.dumps(NETWORK))
    (folder / "h.toml").write_text(CHIP)
    (folder / "s.toml").write_text(SWEEP)
    (folder / "t.csv").write_text(TABLE)
    (folder / "m.onnx").write_bytes(onnx_bytes())
    (folder / "m.pt2").write_bytes(archive(torch_program()))
    with within(folder):
        for name, command in RESULTS.items():
            code, said = run((*command, "-o", name, "-q"))
            assert code == 0, (name, said)


def command_of(seed: int, folder: Path) -> tuple[str, ...]:
    """Damage a file in `folder`, or choose a bad option; the command to run there."""
    chance = random.Random(seed)
    if chance.random() < 0.25:
        name = chance.choice(list(OPTIONS))
        base = {
            "optimize": ("--arrays", "40", "--work", "2"),
            "compare": ("--arrays", "40", "--methods", "none"),
            "pareto": ("--arrays", "30", "--work", "2"),
        }.get(name, ())
        return (name, "n.json", *base, chance.choice(OPTIONS[name]), chance.choice(TEXTS))
    name = chance.choice(list(COMMANDS))
    path = folder / name
    content = path.read_bytes()
    if name.endswith(".json") and chance.random() < 0.8:
        path.write_bytes(as_json(damaged(json.loads(content), seed, chance.randint(1, 3))))
    else:
        path.write_bytes(bitten(content, seed))
    return chance.choice(COMMANDS[name])


def try_case(seed: int, prepared: Path, folder: Path) -> Ending:
    """Run a case in a copy of the prepared folder."""
    shutil.copytree(prepared, folder)
    try:
        words = command_of(seed, folder)
        target = {"sweep": "out", "report": "out.html"}.get(
            words[0], "out.csv" if "csv" in words else "out.json"
        )
        words = (*words, target) if words[0] == "convert" else (*words, "-o", target)
        if target != "out":
            (folder / target).write_bytes(OLD)
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        with within(folder):
            code, said = run((*words, "-q"))
        return Ending(
            _verdict(code, said, before, folder, target), f"{' '.join(words)[:300]}\n{said[-1500:]}"
        )
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
    parser.add_argument("--count", type=int, default=3000)
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
