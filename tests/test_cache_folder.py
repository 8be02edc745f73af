"""Compiled code is loaded from, and written to, no place where another user can write."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pickle
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rramalloc
from rramalloc import cache_folder, compiled
from rramalloc.errors import FileError

SOURCE = """
from rramalloc.compiled import compiled

@compiled
def double(x):
    return 2 * x
"""


@pytest.fixture(autouse=True)
def _nothing_is_known() -> Iterator[None]:
    cache_folder.private_folder.cache_clear()
    yield
    cache_folder.private_folder.cache_clear()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def made(path: Path, permissions: int) -> Path:
    path.mkdir()
    path.chmod(permissions)
    return path


@pytest.fixture
def permissive_umask() -> Iterator[None]:
    before = os.umask(0o002)
    yield
    os.umask(before)


@pytest.mark.usefixtures("permissive_umask")
def test_a_folder_is_made_for_the_user_alone(tmp_path: Path) -> None:
    folder = cache_folder.private_folder(tmp_path / "a" / "b")
    assert folder == tmp_path / "a" / "b"
    assert [mode(folder), mode(folder.parent)] == [0o700, 0o700]


@pytest.mark.parametrize("permissions", [0o770, 0o707, 0o777, 0o775, 0o757])
def test_folders_and_parents_that_others_can_write_are_refused(tmp_path: Path, permissions: int) -> None:
    shared = made(tmp_path / "shared", permissions)
    (shared / "within").mkdir()
    for folder in (shared, shared / "within", shared / "new"):
        with pytest.raises(FileError, match=r"shared: can be written by other users \(chmod go-w\)"):
            cache_folder.private_folder(folder)
    assert not (shared / "new").exists()


def test_a_sticky_parent_is_as_good_as_a_private_one(tmp_path: Path) -> None:
    sticky = made(tmp_path / "sticky", 0o1777)
    assert cache_folder.private_folder(sticky / "own") == sticky / "own"
    cache_folder.private_folder.cache_clear()
    with pytest.raises(FileError, match="can be written by other users"):
        cache_folder.private_folder(sticky)


def test_folders_and_parents_of_other_users_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(FileError, match="belongs to another user"):
        cache_folder.private_folder(tmp_path / "theirs")


def test_a_link_is_followed_to_what_is_judged(tmp_path: Path) -> None:
    made(tmp_path / "shared", 0o777)
    made(tmp_path / "own", 0o700)
    (tmp_path / "good").symlink_to("own")
    (tmp_path / "bad").symlink_to("shared")
    assert cache_folder.private_folder(tmp_path / "good" / "new") == tmp_path / "own" / "new"
    with pytest.raises(FileError, match="shared: can be written"):
        cache_folder.private_folder(tmp_path / "bad" / "new")


def test_a_link_that_appears_meanwhile_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a sticky folder another user may make it after links were resolved, to a good folder at first."""
    sticky, own = made(tmp_path / "sticky", 0o1777), made(tmp_path / "own", 0o700)
    right = os.path.realpath

    def resolved_too_early(path: Path) -> str:
        found = right(path)
        (sticky / "late").symlink_to(own)
        return found

    monkeypatch.setattr(os.path, "realpath", resolved_too_early)
    with pytest.raises(FileError, match="late: has become a link"):
        cache_folder.private_folder(sticky / "late" / "numba")
    assert not list(own.iterdir())


def test_a_file_or_a_relative_path_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be"):
        cache_folder.private_folder(tmp_path / "file")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match="is no absolute path"):
        cache_folder.private_folder(Path("cache"))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_where_the_code_of_a_source_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the user says, else beside the source, else in the user's cache; never in a folder called ~."""
    package = made(tmp_path / "package", 0o755)
    source = package / "kernel.py"
    name = f"package_{hashlib.sha1(str(package).encode(), usedforsecurity=False).hexdigest()}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    chosen = tmp_path / "chosen"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(chosen))
    assert cache_folder.cache_folder(source) == chosen / name
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    assert cache_folder.cache_folder(source) == package / "__pycache__"
    made(tmp_path / "shared", 0o777)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "shared"))
    with pytest.raises(FileError, match="shared: can be written"):
        cache_folder.cache_folder(source)
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    cache_folder.private_folder.cache_clear()
    (package / "__pycache__").chmod(0o775)
    assert cache_folder.cache_folder(source) == tmp_path / "home" / ".cache" / "numba" / name
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder.cache_folder(source) == tmp_path / "xdg" / "numba" / name
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as without HOME and an entry in passwd
    with pytest.raises(FileError, match="is no absolute path"):
        cache_folder.cache_folder(source)
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize(
    ("permissions", "is_private"), [(0o600, True), (0o644, True), (0o664, False), (0o646, False)]
)
def test_files_that_others_can_write(tmp_path: Path, permissions: int, is_private: bool) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("")
    file.chmod(permissions)
    link.symlink_to(file)
    assert cache_folder.is_private_file(file) == is_private
    assert not cache_folder.is_private_file(link)
    assert not cache_folder.is_private_file(tmp_path / "absent")


Load = Callable[[], Any]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Import a module with a compiled function, each time as a new process does, its code in `cache`."""
    (tmp_path / "doubling.py").write_text(SOURCE)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))

    def function() -> Any:
        cache_folder.private_folder.cache_clear()
        spec = importlib.util.spec_from_file_location("doubling", tmp_path / "doubling.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "doubling", module)
        spec.loader.exec_module(module)
        return module.double

    return function


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []
    monkeypatch.setattr(compiled, "compilation", compiled.Compilation())
    compiled.compilation.on_note = told.append
    return told


ran: list[str] = []


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return ran.append, ("code of another user",)


def plant(folder: Path) -> None:
    """Put code in place of a function's index, with the checksum that it needs."""
    (index,) = folder.glob("*/*.nbi")
    content = pickle.dumps(Evil())
    index.write_bytes(content + hashlib.blake2b(content, digest_size=16).digest())


@pytest.mark.usefixtures("permissive_umask")
def test_what_is_kept_belongs_to_the_user_and_is_loaded_again(
    tmp_path: Path, load: Load, said: list[str]
) -> None:
    """A umask that lets the group write changes nothing."""
    assert load()(21) == 42
    kept = sorted((tmp_path / "cache").rglob("*"))
    assert {mode(path) for path in kept} == {0o700, 0o600}
    assert len(kept) == 3  # a folder, an index, a file of code
    assert load()(21) == 42
    assert said == []


def test_code_in_a_shared_folder_is_not_run(tmp_path: Path, load: Load, said: list[str]) -> None:
    load()(21)
    plant(tmp_path / "cache")
    (tmp_path / "cache").chmod(0o777)
    for _ in range(2):
        assert load()(21) == 42
    assert ran == []
    (told,) = said
    assert told.startswith("every run compiles for about ")
    assert f"{tmp_path / 'cache'}: can be written by other users (chmod go-w)" in told
    assert told.endswith("make a folder with mkdir -m 700 and name it in NUMBA_CACHE_DIR")


def test_files_that_others_can_write_are_compiled_again(tmp_path: Path, load: Load, said: list[str]) -> None:
    load()(21)
    plant(tmp_path / "cache")
    (index,) = (tmp_path / "cache").glob("*/*.nbi")
    index.chmod(0o666)
    assert load()(21) == 42
    assert ran == []
    assert said == [f"compiled code in {index.parent} was damaged: it is compiled again"]
    assert mode(index) == 0o600


def test_nothing_is_kept_with_another_numba(
    tmp_path: Path, load: Load, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where its inner classes have other names."""
    compiled._inside.cache_clear()
    monkeypatch.setitem(sys.modules, "rramalloc.numba_inside", None)
    monkeypatch.delattr(rramalloc, "numba_inside")
    assert load()(21) == 42
    assert "its code is not kept: numba has other inner classes" in said[0]
    assert len(said) == 1
    assert not list(tmp_path.rglob("*.nb?"))
    compiled._inside.cache_clear()


def test_one_process_speaks_for_its_workers(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "shared", 0o777)
    for chosen, told in (("own", 0), ("shared", 1), ("shared", 1)):
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / chosen))
        compiled.compilation.speak_for_workers()
        assert len(said) == told
