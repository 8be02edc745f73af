"""No command runs code of the working folder, or reads a file there that nobody named."""

from __future__ import annotations

import ast
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from program import run

import rramalloc
from rramalloc.hardware.preset_files import preset_names
from rramalloc.network.shipped import shipped_names
from rramalloc.room import rooms

PACKAGE = Path(rramalloc.__file__).parent
INSTALLED = ("numpy", "numba", "onnx", "torch", "click", "pydantic", "highspy", "vl_convert", "distributed")
POISON = 'open("MARK", "a").write(__file__ + "\\n")\nraise ImportError("not the real one")\n'
SPEC = 'networks = ["alexnet"]\narrays = [300, 310]\nmethods = ["balance"]\nwork = 0\n'
CHIPLETS = """{"chip": {"chiplets": [1, 2], "units": [1, 4], "hop_cycles_inside": 1, "hop_cycles_between": 5},
"groups": [["v"]], "edges": [],
"operators": {"v": {"compute": 30, "submesh": [[1, 1], [1, 1]], "first": [[0, 0], [0, 1]]}}}
"""
UNITS = """name = "60 arrays"
crossbar = { wordlines = 128, bitlines = 128, cell_bits = 16 }
precision = { weight_bits = 16, input_bits = 16, output_bits = 16, signed = "offset" }
[units]
processors = 60
storage_units = 60
unit_bytes = 65536
bandwidth_in_gb_s = 8
bandwidth_out_gb_s = 8
ns_per_byte = 0.5
"""
COMMANDS = """
networks
examples
docs
presets plain
schema allocation
warm-up
inspect alexnet
convert alexnet network.json
fold vgg11 --crossbar 128x128
optimize resnet8 --arrays 60 --work 1 -o a.json
optimize resnet8 --arrays 60 --hardware isaac --work 1 -o i.json
compare resnet8 --arrays 60 --methods balance,uniform -o c.json --figure c.svg
simulate resnet8 --allocation a.json
explain resnet8 --allocation a.json --work 1
pareto resnet8 --arrays 30 --work 1
place resnet8 --allocation i.json --work 0 -o p.json
verify resnet8 --allocation a.json
report a.json -o a.html
export resnet8 --allocation a.json --to csv -o exported
latency measure resnet8 --device simulated -o times.csv
optimize resnet8 --arrays 8 --set write.write_ns_per_row=10 --hardware isaac --reload --work 1
evaluate resnet8 --hardware units.toml --allocations a.json
chiplet cost one.json
sweep spec.toml -o rows --jobs 2
size vgg11 --target-throughput 2k --hardware isaac --choose timing.columns_per_adc=16,32 --work 2 --jobs 2
tune resnet8 --arrays 60 --simulator "sh -c 'echo 1' {allocation}" --evaluations 2
"""
MAIN = """
import shlex
from program import run
from rramalloc.commands.warm_up import warm_up
warm_up.PROGRAMS = {}  # what it would call are commands as those below
for line in open("commands.txt"):
    done = run(*shlex.split(line))
    print(done.code, line.strip(), done.err[-300:] if done.code else "", flush=True)
"""


def test_no_command_runs_a_module_of_the_working_folder(tmp_path: Path) -> None:
    """Started as the installed program is, whose path has the folder of its script and not this one."""
    folder, script = tmp_path / "folder", tmp_path / "script.py"
    folder.mkdir()
    for name in (*sys.stdlib_module_names, *INSTALLED):
        (folder / f"{name}.py").write_text(POISON)
    (folder / "spec.toml").write_text(SPEC)
    (folder / "one.json").write_text(CHIPLETS)
    (folder / "units.toml").write_text(UNITS)
    (folder / "commands.txt").write_text(COMMANDS.strip())
    script.write_text(f"import sys; sys.path.append({str(Path(__file__).parents[1])!r})\n{MAIN}")
    done = subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert not (folder / "MARK").exists(), (folder / "MARK").read_text()
    assert [line for line in lines if not line.startswith("0 ")] == [], done.stderr
    assert {line.split()[1].replace("-", "_") for line in lines} == {*rooms()} - {
        "reload"
    }  # an option of optimize


def test_workers_that_cannot_be_started_safely_are_refused(tmp_path: Path) -> None:
    """python -E ignores the variable that keeps the folder off the path of workers; -I does without."""
    (tmp_path / "spec.toml").write_text(SPEC)
    call = "import rramalloc; print(rramalloc.sweep('spec.toml', 'rows', jobs=1).computed)"
    for flag, said in (("-E", "start it with -I"), ("-EP", ""), ("-I", "")):
        done = subprocess.run(
            [sys.executable, flag, "-c", call], cwd=tmp_path, capture_output=True, text=True
        )
        assert said in done.stderr
        assert (done.returncode != 0) == (flag == "-E")


def test_child_pythons_start_in_one_module_alone() -> None:
    """No other one knows the interpreter, or makes processes that import modules."""
    starts = {
        "sys.executable",
        "ProcessPoolExecutor",
        "multiprocessing.get_context",
        "multiprocessing.Process",
    }
    for path in PACKAGE.rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text("utf-8")))
        names = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute | ast.Name)}
        assert path.name == "children.py" or not names & starts, path


def test_a_default_is_never_looked_for_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that no command can read have the names of all that ships."""
    monkeypatch.chdir(tmp_path)
    question = 'networks = [{ network = "n.json", target = 60000 }]\nminimise = "arrays"\n'
    (tmp_path / "size.toml").write_text(question + '[choose]\ncrossbar = ["128x128"]\n')
    (tmp_path / "spec.toml").write_text(SPEC.replace("alexnet", "n.json"))
    assert run("convert", "resnet8", "n.json").code == 0
    for name in (*preset_names(), *shipped_names()):
        (tmp_path / name).write_text("no file of any kind")
    assert rramalloc.optimize("n.json", 60, work=1).hardware.name == "plain"
    for command in (
        "optimize n.json --arrays 60 --work 1 -o a.json",
        "simulate n.json --allocation a.json",
        "fold n.json",
        "sweep spec.toml -o rows --jobs 1",
        "size size.toml --jobs 1",
        "tune n.json --arrays 60 --simulator \"sh -c 'echo 1' {allocation}\" --evaluations 1",
        "report a.json -o a.html",
        "networks",
        "presets",
    ):
        done = run(*shlex.split(command))
        assert done.code == 0, (command, done.err)
    assert json.loads((tmp_path / "a.json").read_text())["network"]["name"] == "resnet8"


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: os.symlink("nowhere", path)])
def test_a_shipped_name_means_what_ships_unless_a_regular_file_has_it(
    make: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "spec.toml").write_text(SPEC + 'hardware = ["isaac"]\n')
    for name in ("alexnet", "isaac", "specs/alexnet", "specs/isaac"):
        make(tmp_path / name)
    assert rramalloc.load("alexnet").name == "alexnet"
    assert rramalloc.load_hardware("isaac").name == "isaac"
    assert run("sweep", "specs/spec.toml", "-o", "rows", "--jobs", 1, "-q").code == 0
    os.rename("isaac", "old")
    (tmp_path / "isaac").write_text(run("presets", "plain").out.replace('"plain"', '"mine"'))
    assert rramalloc.load_hardware("isaac").name == "mine"
    assert run("sweep", "specs/spec.toml", "-o", "others", "--jobs", 1, "-q").code == 0
    rows = [rramalloc.read(folder).rows for folder in ("rows", "others")]
    assert rows[0] == rows[1]  # the name in a file means what lies beside the file, or what ships
