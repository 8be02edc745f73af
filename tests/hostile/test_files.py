"""Files that cannot be what they should be: one message with the file and the reason."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rramalloc import files

pytestmark = pytest.mark.quick

Behaves = Callable[..., Any]
COMMANDS = {
    ".json": ("inspect",),
    ".onnx": ("inspect",),
    ".csv": ("inspect",),
    ".pt2": ("inspect",),
    ".toml": ("inspect", "vgg16", "--hardware"),
    ".allocation": ("simulate", "vgg16", "--allocation"),
}


def refused(behaves: Behaves, path: Path, told: str) -> None:
    outcome = behaves(path, *COMMANDS[path.suffix], path)
    assert outcome.code == 1
    assert outcome.out == ""
    assert f"{path}: " in outcome.err
    assert told in outcome.err


def link_to_an_endless_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


MADE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "no such file"),
    "folder": (Path.mkdir, "file"),
    "empty": (Path.touch, ""),
    "zeros": (lambda path: path.write_bytes(b"\x00" * 1000), ""),
    "no archive": (lambda path: path.write_bytes(b"PK\x03\x04"), ""),
    "device": (link_to_an_endless_device, ""),
}


@pytest.mark.parametrize("ending", COMMANDS)
@pytest.mark.parametrize("made", MADE)
def test_what_is_no_such_file(made: str, ending: str, tmp_path: Path, behaves: Behaves) -> None:
    make, told = MADE[made]
    path = tmp_path / f"hostile{ending}"
    make(path)
    refused(behaves, path, told)


@pytest.mark.parametrize("ending", [".json", ".csv", ".toml", ".allocation"])
def test_not_utf8(ending: str, tmp_path: Path, behaves: Behaves) -> None:
    path = tmp_path / f"latin{ending}"
    path.write_bytes(b"abc \xe9\xe8 def")
    refused(behaves, path, "is not UTF-8 text (byte 4): save it as UTF-8")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can become someone else")
def test_no_permission_for_real(tmp_path: Path) -> None:
    path = tmp_path / "secret.json"
    path.write_text("{}")
    path.chmod(0)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    code = (
        "import os, sys; from rramalloc.cli.main import main; from rramalloc import api; "
        "os.setuid(65534); sys.argv = ['rramalloc', 'inspect', sys.argv[1]]; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"error: {path}: permission denied\n"


def test_socket(tmp_path: Path, behaves: Behaves, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.json")
        refused(behaves, tmp_path / "socket.json", "is a device or socket, a file is needed")


@pytest.mark.parametrize(("ending", "limit"), [(".json", "JSON"), (".csv", "CSV"), (".toml", "TOML")])
def test_too_large(ending: str, limit: str, tmp_path: Path, behaves: Behaves) -> None:
    path = tmp_path / f"large{ending}"
    size = getattr(files, f"{limit}_LIMIT_BYTES")
    with path.open("wb") as stream:
        stream.truncate(size + 1)
    refused(behaves, path, f"is larger than the limit of {size} bytes")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 5000 + "]" * 5000])
@pytest.mark.parametrize("ending", [".json", ".allocation"])
def test_deep_nesting(ending: str, text: str, tmp_path: Path, behaves: Behaves) -> None:
    path = tmp_path / f"deep{ending}"
    path.write_text(text)
    refused(behaves, path, "")


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_lacks(word: str, tmp_path: Path, behaves: Behaves) -> None:
    path = tmp_path / "nan.json"
    path.write_text(f'{{"format": "rramalloc-network/1", "name": "n", "nodes": [{{"groups": {word}}}]}}')
    refused(behaves, path, f"{word} is not a number that JSON allows")


def test_repeated_key(tmp_path: Path, behaves: Behaves) -> None:
    path = tmp_path / "twice.json"
    path.write_text('{"format": "rramalloc-network/1", "name": "a", "name": "b", "nodes": []}')
    refused(behaves, path, "the key 'name' appears twice in one object")


@pytest.mark.parametrize("name", ["..", "a\x00b.json"])
def test_impossible_names(name: str, run: Behaves) -> None:
    for command in (
        ["inspect", name],
        ["simulate", "vgg16", "--allocation", name],
        ["convert", name, "out.json"],
    ):
        outcome = run(*command)
        assert outcome.code == 1
        assert outcome.err.startswith("error: ")
        assert "internal error" not in outcome.err
    assert "internal error" not in run("inspect", "vgg16", "--hardware", name).err
