"""numba's file of settings in the working folder, which may be anybody's, decides nothing here."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DOUBLING = """
from rramalloc.compiled import compiled

@compiled
def double(x):
    return 2 * x
"""
PROBE = """
import doubling
print(doubling.double(21), doubling.double.stats.cache_path, sum(doubling.double.stats.cache_hits.values()))
"""

EVERYTHING = {
    "cache_dir": "{folder}/planted",
    "cache_locator_classes": "numba.core.caching.UserProvidedCacheLocator",
    "disable_jit": 1,
    "boundscheck": 1,
    "opt": 0,
    "num_threads": 0,
    "developer_mode": 1,
    "full_tracebacks": 1,
    "debug": 1,
    "debug_cache": 1,
    "dump_ir": 1,
    "dump_bytecode": 1,
    "debuginfo": 1,
    "cpu_name": "generic",
    "threading_layer": "none",
    "enable_cudasim": 1,
    "cuda_use_nvidia_binding": 1,
    "chrome_trace": "trace.json",
}


def probe(folder: Path, program: str = PROBE, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program whose module with a compiled function lies in `package`, and which works in `folder`."""
    package = folder.parent / "package"
    if not package.exists():
        package.mkdir()
        (package / "doubling.py").write_text(DOUBLING)
    paths = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=inherited | {"PYTHONPATH": paths} | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def write(folder: Path, **settings: Any) -> None:
    text = json.dumps(settings).replace("{folder}", str(folder))
    (folder / ".numba_config.yaml").write_text(text)  # JSON is YAML


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch MARK",)


@pytest.mark.parametrize("cache_dir", ["{folder}/planted", "/proc/self/cwd/planted"])
def test_no_code_of_the_working_folder_is_run(folder: Path, cache_dir: str) -> None:
    """Files with the names that another installation in the same place shows."""
    assert probe(folder, NUMBA_CACHE_DIR=str(folder / "planted")).stdout.startswith("42 ")
    (index,) = (folder / "planted").glob("*/*.nbi")
    for file in index.parent.iterdir():
        file.write_bytes(pickle.dumps(Evil()))
    write(folder, cache_dir=cache_dir)
    for hits in (0, 1):
        beside = folder.parent / "package" / "__pycache__"
        assert probe(folder).stdout == f"42 {beside} {hits}\n"
    assert not (folder / "MARK").exists()


def test_no_setting_of_the_file_counts(folder: Path) -> None:
    """Neither for the answer nor for what is printed, where it is compiled and where it is loaded."""
    write(folder, **EVERYTHING)
    for hits in (0, 1):
        ended = probe(folder)
        assert ended.stdout == f"42 {folder.parent / 'package' / '__pycache__'} {hits}\n", ended.stderr
        assert ended.stderr == ""
    assert [path.name for path in folder.iterdir()] == [".numba_config.yaml"]


def test_a_damaged_file_is_not_read(folder: Path) -> None:
    """The first is there while code is compiled, the others when it is loaded."""
    for damaged in (b"{", b"[a list]", b"1: whole", b"\xff\xfe", b"opt: banana", b"num_threads: x"):
        (folder / ".numba_config.yaml").write_bytes(damaged)
        ended = probe(folder)
        assert (ended.stdout.split()[0], ended.stderr) == ("42", ""), damaged


def test_the_package_below_the_working_folder_keeps_its_code_beside_it(folder: Path) -> None:
    write(folder.parent, **EVERYTHING)
    probe(folder)
    ended = probe(folder, f"import os; os.chdir({str(folder.parent)!r})\n{PROBE}")
    assert ended.stdout == f"42 {folder.parent / 'package' / '__pycache__'} 1\n"


def test_the_cache_in_the_home_folder_where_one_works(folder: Path) -> None:
    """As the folder beside the package can be written by others."""
    write(folder, **EVERYTHING)
    probe(folder)
    (folder.parent / "package" / "__pycache__").chmod(0o777)
    for hits in (0, 1):
        words = probe(folder, HOME=str(folder), XDG_CACHE_HOME="").stdout.split()
        assert Path(words[1]).parent == folder / ".cache" / "numba"
        assert words[2] == str(hits)


def test_settings_of_the_users_own_functions_stay(folder: Path) -> None:
    """A program that has numba first, with a file of its own: nothing of numba is another afterwards."""
    write(folder, cache_dir="{folder}/own", opt="2", boundscheck=1, num_threads=1)
    program = f"""
import numba
config = lambda: {{n: v for n, v in vars(numba.config).items() if n.isupper() or n == "reload_config"}}
before = config()
{PROBE}
assert config() == before
assert (numba.config.OPT, numba.config.BOUNDSCHECK) == (2, 1)
@numba.njit(cache=True)
def mine(x): return x
"""
    (folder.parent / "package").mkdir()
    (folder.parent / "package" / "doubling.py").write_text(DOUBLING)
    (folder / "script.py").write_text(program + "assert mine(1) == 1\nprint(mine.stats.cache_path)\n")
    ended = probe(folder, "import runpy; runpy.run_path('script.py')")
    first, second = ended.stdout.splitlines()
    assert first == f"42 {folder.parent / 'package' / '__pycache__'} 0", ended.stderr
    assert Path(second).parent == folder / "own"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("NUMBA_DISABLE_JIT", "1", "NUMBA_DISABLE_JIT: searches run as compiled code alone: unset it"),
        (
            "NUMBA_NUM_THREADS",
            "0",
            "environment: numba cannot be loaded: Number of threads specified must be > 0",
        ),
        (
            "NUMBA_NUM_THREADS",
            "abc",
            "environment: numba cannot be loaded: Environment variable 'NUMBA_NUM_THR",
        ),
        (
            "NUMBA_OPT",
            "9",
            "environment: numba cannot be loaded: Environment variable 'NUMBA_OPT' is defined",
        ),
    ],
)
def test_the_environment_is_said_to_be_wrong(folder: Path, name: str, value: str, told: str) -> None:
    main = "import sys; from rramalloc.cli.main import main; sys.argv[1:] = {}; main()"
    ended = probe(folder, main.format(["optimize", "alexnet", "--arrays", "x1", "-q"]), **{name: value})
    assert (ended.returncode, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"error: {told}")
    assert line.endswith(f"unset {name}") or name in told.split(":")


@pytest.mark.parametrize("hidden", ["numba.core", "numba.core.compiler_lock", "numba.core.event"])
def test_a_numba_whose_inner_modules_lie_elsewhere_still_compiles(folder: Path, hidden: str) -> None:
    """To this package alone they are hidden, as numba itself needs them under some name."""
    program = f"""
import builtins
whole = builtins.__import__
def without(name, globals=None, locals=None, fromlist=(), level=0):
    names = [name, *(f"{{name}}.{{each}}" for each in fromlist or ())]
    of_package = str((globals or {{}}).get("__name__")).startswith("rramalloc")
    if of_package and any(f"{{each}}.".startswith("{hidden}.") for each in names):
        raise ModuleNotFoundError("No module named {hidden}")
    return whole(name, globals, locals, fromlist, level)
builtins.__import__ = without
import doubling
print(doubling.double(21))
"""
    ended = probe(folder, program)
    assert ended.stdout == "42\n", ended.stderr


def test_two_threads_that_are_first_at_once_leave_numba_as_it_was(folder: Path) -> None:
    """Each function is counted once, and the user's own functions are compiled by numba's own methods."""
    program = """
import importlib, threading, time
from numba.core import event
from numba.core.types.functions import BaseFunction
before = BaseFunction.get_call_type
register = event.register
def slow(*arguments):
    time.sleep(1)  # meanwhile the other thread comes to the same place
    register(*arguments)
event.register = slow
from rramalloc.compiled import compilation
start = threading.Barrier(2)
def call(name):
    start.wait()
    assert importlib.import_module(name).double(21) == 42
threads = [threading.Thread(target=call, args=[name]) for name in ("doubling", "again")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(compilation.functions, BaseFunction.get_call_type is before)
"""
    (folder / "again.py").write_text(DOUBLING)
    ended = probe(folder, program)
    assert ended.stdout == "2 True\n", ended.stderr
