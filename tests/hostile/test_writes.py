"""Results are written whole or not at all, whatever happens meanwhile."""

from __future__ import annotations

import fcntl
import os
import random
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hostile.documents import DOCUMENTS, onnx_bytes
from hostile.fuzz import FORTY, MAKESPAN, ON, SEGMENTS
from typer.main import get_command

import rramalloc
from rramalloc.cli.main import app
from rramalloc.cli.parameters import OptionValue
from rramalloc.errors import FileError
from rramalloc.files import (
    check_writable,
    make_folder,
    open_alone,
    open_to_write,
    write_bytes,
    write_folder,
    write_text,
)

Run = Callable[..., Any]
WRITER = """
import sys
from rramalloc.files import write_bytes
letter, path = sys.argv[1:]
print("ready", flush=True)
while True:
    write_bytes(path, letter.encode() * 3_000_000)
"""


def writer(letter: str, path: Path) -> subprocess.Popen[str]:
    """A process that rewrites `path` with 3 MB of one letter again and again."""
    command = [sys.executable, "-c", WRITER, letter, str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_killed_while_writing(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    chance = random.Random(1)
    for _ in range(8):
        path.write_bytes(b"old" * 1_000_000)
        process = writer("n", path)
        time.sleep(chance.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert path.read_bytes() in (b"old" * 1_000_000, b"n" * 3_000_000)
    write_bytes(path, b"last")
    assert os.listdir(tmp_path) == ["result.json"]


def test_two_writers_at_once(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(b"a" * 3_000_000)
    processes = [writer(letter, path) for letter in "ab"]
    seen = set()
    for _ in range(60):
        content = path.read_bytes()
        assert len(content) == 3_000_000
        assert content.count(content[:1]) == len(content)
        seen.add(content[:1])
        time.sleep(0.005)
    for process in processes:
        process.kill()
        process.communicate()
    assert seen == {b"a", b"b"}


@pytest.mark.parametrize("fault", ["os.fsync", "os.replace", "os.fchmod"])
def test_fault_before_the_end_leaves_the_old_file(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")

    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fault, fail)
    with pytest.raises(FileError, match=r"result\.json: no space left on device"):
        write_bytes(path, b"new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["result.json"]


def test_permissions_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")
    path.chmod(0o640)
    write_bytes(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_link_to_itself_is_not_replaced(tmp_path: Path) -> None:
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop.name)
    for write in (check_writable, lambda path: write_bytes(path, b"new")):
        with pytest.raises(FileError, match=r"loop\.json: too many levels of symbolic links"):
            write(loop)
    assert loop.is_symlink()
    assert os.listdir(tmp_path) == ["loop.json"]


@pytest.mark.parametrize("name", ["file", "pipe", "dangling", "/dev/null"])
def test_what_is_no_folder_does_not_become_one(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to("nowhere")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(FileError, match="exists and is no folder: name a new folder"):
        make_folder(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == before


def test_a_full_disk_is_told_of_the_folder_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(FileError, match=r"out/a\.txt: no space left on device") as caught:
        write_folder(tmp_path / "out", {"a.txt": "text"}, lambda _: True)
    assert ".tmp" not in str(caught.value)
    assert os.listdir(tmp_path) == []


def test_a_folder_without_what_killed_processes_left(tmp_path: Path) -> None:
    """Drafts of processes that live, of other folders, and what is only called like one stay."""
    stay = [".other.abcdefgh.tmp", ".out.abcdefgh.tmp.d", ".out.abc.tmp", ".out.notes_24.tmp"]
    left = [".out.abcdefgh.tmp", ".out.a_cdefg1.tmp"]
    for name in (*stay, ".out.writing1.tmp", *left):
        (tmp_path / name / "new").mkdir(parents=True)
    for name in left:
        (tmp_path / name / "lock").touch()
    stay.append(".out.writing1.tmp")
    (tmp_path / ".out.aafileaa.tmp").write_text("")
    lock = os.open(tmp_path / ".out.writing1.tmp" / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    write_folder(tmp_path / "out", {"a.txt": "text"}, lambda _: True)
    os.close(lock)
    assert sorted(os.listdir(tmp_path)) == sorted([*stay, ".out.aafileaa.tmp", "out"])
    write_folder(tmp_path / "out", {"b.txt": "text"}, lambda _: True)
    assert ".out.writing1.tmp" not in os.listdir(tmp_path)
    assert os.listdir(tmp_path / "out") == ["b.txt"]


def test_a_file_is_written_although_its_draft_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes the same file just before the draft is held, and takes it for a dead one."""
    path = tmp_path / "result.json"
    flock = fcntl.flock

    def late(*arguments: Any) -> None:
        monkeypatch.undo()
        write_bytes(path, b"other")
        flock(*arguments)

    monkeypatch.setattr(fcntl, "flock", late)
    write_bytes(path, b"text")
    assert os.listdir(tmp_path) == ["result.json"]
    assert path.read_bytes() == b"text"


def test_a_draft_that_is_being_made_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process writes the same folder just before the lock of a draft is held."""
    flock = fcntl.flock

    def late(*arguments: Any) -> None:
        monkeypatch.undo()
        write_folder(tmp_path / "out", {"b.txt": "other"}, lambda _: True)
        flock(*arguments)

    monkeypatch.setattr(fcntl, "flock", late)
    write_folder(tmp_path / "out", {"a.txt": "text"}, lambda _: True)
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(tmp_path / "out") == ["a.txt"]


def test_a_name_has_as_many_bytes_as_the_disk_allows(tmp_path: Path) -> None:
    """Of 255; the draft beside it has a name of its own."""
    long_name = "\N{GRINNING FACE}" * 62
    write_bytes(tmp_path / long_name, b"x")
    write_folder(tmp_path / f"{long_name}d", {"a.txt": "text"}, lambda _: True)
    assert sorted(os.listdir(tmp_path)) == [long_name, f"{long_name}d"]


def test_a_name_that_is_no_text_is_written_with_question_marks(tmp_path: Path) -> None:
    """Names of files may be any bytes; what is written is read again."""
    table = tmp_path / os.fsdecode(b"\xffnet.csv")
    table.write_text("name,c_in,c_out,w_out,h_out,k,s,p,k_pool,s_pool,p_pool\nconv1,1,4,8,8,3,1,1,1,1,0\n")
    rramalloc.convert(os.fspath(table), tmp_path / "out.json")
    rramalloc.optimize(os.fspath(table), 2, work=0).save(tmp_path / "a.json")
    assert rramalloc.load(os.fspath(table)).name == "?net"
    assert rramalloc.load(os.fspath(tmp_path / "out.json")).name == "?net"
    assert rramalloc.read(tmp_path / "a.json").copies == {"conv1": 2}


@pytest.mark.parametrize(
    ("write", "when"),
    [
        (lambda folder: write_folder(folder, {"a.txt": "new"}, lambda _: True), "os.fsync"),
        (lambda folder: write_folder(folder, {"a.txt": "new"}, lambda _: True), "os.rename"),
        (lambda folder: write_bytes(folder / "a.txt", b"new"), "os.fsync"),
    ],
)
def test_sigterm_leaves_no_draft(
    write: Callable[[Path], None], when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a file is written, and between the two renames of a folder."""
    write_folder(tmp_path / "out", {"a.txt": "old"}, lambda _: True)
    right = getattr(os, when.removeprefix("os."))

    def ended(*arguments: Any) -> None:
        right(*arguments)
        monkeypatch.undo()
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(when, ended)
    with pytest.raises(SystemExit) as end:
        write(tmp_path / "out")
    assert end.value.code == 143
    assert (os.listdir(tmp_path), os.listdir(tmp_path / "out")) == (["out"], ["a.txt"])
    assert (tmp_path / "out" / "a.txt").read_text() == "old"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


COMMANDS = (
    ("optimize", "alexnet", "--arrays", 800, "--work", 0, "-o"),
    ("inspect", "alexnet", "-o"),
    ("convert", "alexnet"),
)
EVERY_COMMAND = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])


@EVERY_COMMAND
@pytest.mark.parametrize(
    ("target", "told"), [("none/out.json", "folder"), ("n" * 300 + ".json", "file name too long")]
)
def test_impossible_targets(
    command: tuple[Any, ...], target: str, told: str, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "file").touch()
    outcome = run(*command, tmp_path / target)
    assert outcome.code == 1
    assert f"error: {tmp_path / target}: " in outcome.err
    assert told in outcome.err
    assert os.listdir(tmp_path) == ["file"]


@EVERY_COMMAND
def test_full_disk(command: tuple[Any, ...], run: Run) -> None:
    outcome = run(*command, "/dev/full")
    assert outcome.code == 1
    assert "error: /dev/full: no space left on device" in outcome.err


ANSWERS = {
    "optimize": f"{FORTY} {ON} --bits bits.csv --sensitivity 2",
    "reload": f"{SEGMENTS} {ON}",
    "inspect": "n.json",
    "simulate": "n.json --allocation bare.json",
    "compare": f"{FORTY} --methods none,interval",
    "pareto": FORTY,
    "place": f"n.json --allocation bare.json {ON} --work 1",
    "verify": "n.json --allocation bare.json",
    "explain": f"{FORTY} --no-what-if",
    "tune": f"n.json --arrays 40 {ON} --simulator {MAKESPAN} --evaluations 2 --store tune.sqlite",
    "evaluate": f"n.json {ON} --enumerate 2,2",
    "fold": "m.onnx",
    "size": f"n.json {ON} --target 144 --work 1",
    "sweep": "s.toml --jobs 1 -o swept",
    "chiplet cost": "pair.json",
    "chiplet optimize": f"n.json {ON} --work 1",
    "latency measure": "n.json --device simulated --most 20 --samples kept.jsonl -o table.json",
    "latency fit": "kept.jsonl",
    "latency estimate": "n.json --table table.json",
}
"""Arguments of every command that prints what it also writes, by its words (`reload`: of `optimize`)."""
KEPT = {"--store", "--samples"}
"""Files that commands go on from, without which they do not begin."""


def options_that_write(command: Any, words: list[str]) -> list[str]:
    """The options of a command that name a file to write, without those that name a folder."""
    for word in words:
        command = command.commands[word]
    written = [own for own in command.params if isinstance(own.metavar, OptionValue) and own.metavar.writes]
    options = {own.opts[0]: str(own.metavar) for own in written if own.opts[0].startswith("-")}
    return [option for option, value in options.items() if "DIR" not in value and option not in KEPT]


def test_a_file_that_cannot_be_written_does_not_take_the_answer_along(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every option of every command that writes: the answer as without it, then the error, also of two."""
    monkeypatch.chdir(tmp_path)
    for name, text in DOCUMENTS.items():
        Path(name).write_text(text)
    Path("m.onnx").write_bytes(onnx_bytes())
    endings = {"--figure": "svg", "--convergence": "png", "--performance": "csv", "--onnx": "onnx"}
    for name, arguments in ANSWERS.items():
        words = ["optimize"] if name == "reload" else name.split()
        command = [*words, *shlex.split(arguments)]
        right = run(*command)
        assert (right.code, right.out != "") == (0, True), f"{name}: {right.err}"
        options = options_that_write(get_command(app), words)
        assert options or name == "sweep", name
        lost: list[str] = []
        for option in ["-o"] if name == "reload" else options:
            full = f"full{option.strip('-')}.{endings.get(option, 'json')}"
            Path(full).symlink_to("/dev/full")
            lost += [option, full]
            outcome = run(*command, option, full)
            assert (outcome.code, outcome.out) == (1, right.out), f"{name} {option}: {outcome.err}"
            assert f"error: {full}: no space left on device\n" in outcome.err, f"{name} {option}"
        outcome = run(*command, *lost, "--quiet")
        assert (outcome.code, outcome.out) == (1, right.out), f"{name} {lost}: {outcome.err}"
        told = {line for line in outcome.err.splitlines() if line.startswith("error: ")}
        assert told == {f"error: {full}: no space left on device" for full in lost[1::2]}, name
        for full in lost[1::2]:
            Path(full).unlink()


def test_a_reader_that_ends_early_loses_no_file(tmp_path: Path) -> None:
    """Files are written before the answer is printed; what is wrong with one is said all the same."""
    code = "from rramalloc.cli.main import main; main()"
    for name, told in (("kept.json", ""), ("/dev/full", "error: /dev/full: no space left on device\n")):
        read, write = os.pipe()
        os.close(read)
        command = [sys.executable, "-c", code, "inspect", "vgg16", "-o", name, "--format", "json"]
        done = subprocess.run(
            command, stdout=write, stderr=subprocess.PIPE, cwd=tmp_path, text=True, check=False
        )
        os.close(write)
        assert (done.returncode, done.stderr) == (1, told)
    assert os.listdir(tmp_path) == ["kept.json"]


def test_a_figure_that_cannot_be_drawn_takes_neither_answer_nor_file_along(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise ZeroDivisionError("a fault of what draws")

    command = ("optimize", "alexnet", "--arrays", 800, "--work", 0)
    right = run(*command)
    monkeypatch.setattr("rramalloc.chart.Chart.save", fail)
    outcome = run(*command, "-o", tmp_path / "a.json", "--figure", tmp_path / "f.svg")
    assert (outcome.code, outcome.out) == (1, right.out)
    assert "internal error, please report it" in outcome.err
    assert os.listdir(tmp_path) == ["a.json"]


def test_stdout_by_name_keeps_what_follows(tmp_path: Path) -> None:
    """-o /dev/stdout with stdout in a file: document and table, nothing replaced."""
    path = tmp_path / "all.txt"
    code = "from rramalloc.cli.main import main; main()"
    command = [sys.executable, "-c", code, "inspect", "alexnet", "-o", "/dev/stdout"]
    with path.open("a") as stream:
        subprocess.run(command, stdout=stream, check=True)
    text = path.read_text()
    assert '"format": "rramalloc-inspection/2"' in text
    assert "on the host" in text


def test_full_disk_behind_stdout() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from rramalloc.cli.main import main; main()", "inspect", "vgg16"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "error: cannot write the result: no space left on device\n"


OVERWRITING: list[tuple[str, ...]] = [
    ("optimize", "n.json", "--arrays", "40", "-o", "n.json"),
    ("optimize", "symbolic.json", "--arrays", "40", "-o", "hard.json"),
    ("optimize", "n.json", "--arrays", "40", "-o", "sub/../n.json"),
    ("optimize", "n.json", "--arrays", "40", "--figure", "a.svg", "--convergence", "./a.svg"),
    ("optimize", "n.json", "--arrays", "40", "--bits", "a.json", "--bits-network", "n.json"),
    ("simulate", "n.json", "--allocation", "a.json", "-o", "a.json"),
    ("inspect", "n.json", "--hardware", "h.toml", "-o", "h.toml"),
    ("export", "n.json", "--allocation", "a.json", "--to", "json", "-o", "a.json"),
    ("convert", "n.json", "n.json"),
    ("sweep", "s.toml", "-o", "s.toml"),
    ("evaluate", "n.json", "--hardware", "h.toml", "--enumerate", "2,2", "-o", "x.json", "--load", "x.json"),
    ("latency", "fit", "a.json", "-o", "a.json"),
    ("inspect", "n.json", "-o", ""),
    ("optimize", "n.json", "--arrays", "40", "--figure", "protected.svg"),
]


@pytest.mark.parametrize("arguments", OVERWRITING, ids=" ".join)
def test_outputs_that_would_destroy_files_are_refused(
    arguments: tuple[str, ...], tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the work: nothing is read, so that what the files hold does not matter."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for name in ("n.json", "a.json", "h.toml", "s.toml", "protected.json", "protected.svg"):
        (tmp_path / name).write_text(name)
    (tmp_path / "symbolic.json").symlink_to("n.json")
    (tmp_path / "hard.json").hardlink_to("n.json")
    for name in ("protected.json", "protected.svg"):
        (tmp_path / name).chmod(0o444)
    before = sorted(os.listdir(tmp_path))
    outcome = run(*arguments)
    assert outcome.code == 1
    words = (
        "would be overwritten",
        "each needs a file of its own",
        "name of the file is empty",
        "permission",
    )
    assert any(word in outcome.err for word in words), outcome.err
    assert sorted(os.listdir(tmp_path)) == before
    assert all((tmp_path / name).read_text() == name for name in ("n.json", "a.json", "h.toml", "s.toml"))


def test_what_a_killed_process_moved_away_is_put_back_before_anything_else(tmp_path: Path) -> None:
    """Killed between the two renames of a folder; the next run fails, and the old content must be there."""
    draft = tmp_path / ".out.abcd1234.tmp"
    for name in ("old", "new"):
        (draft / name).mkdir(parents=True)
        (draft / name / "a.txt").write_text(name)
    (draft / "lock").touch()
    with pytest.raises(FileError, match="is no name of a file"):
        write_folder(tmp_path / "out", {"../a": ""}, lambda _: True)
    assert (tmp_path / "out" / "a.txt").read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


def test_dead_drafts_of_a_file_go_and_those_of_a_process_that_runs_stay(tmp_path: Path) -> None:
    dead, alive = (tmp_path / f".a.json.{name}.tmp" for name in ("00000000", "11111111"))
    other = tmp_path / ".b.json.00000000.tmp"
    for path in (dead, other):
        path.touch()
    with open_alone(alive):
        write_text(tmp_path / "a.json", "1")
        assert sorted(tmp_path.iterdir()) == sorted([alive, other, tmp_path / "a.json"])
    with open_to_write(tmp_path / "a.json") as stream:
        stream.write(b"2")
        write_text(tmp_path / "a.json", "3")  # leaves the draft of the stream alone
    assert (tmp_path / "a.json").read_text() == "2"
