"""Commands are rooms beside the core: without them networks are allocated all the same.

Which folder may import from which is a contract in pyproject.toml, which `lint-imports` checks.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rramalloc

PACKAGE = Path(rramalloc.__file__).parent
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("commands/*/__init__.py"))
WITHOUT = f"""
import sys
for room in {ROOMS}:
    sys.modules["rramalloc.commands." + room] = None
import rramalloc
print(rramalloc.optimize("alexnet", "x2").makespan)
"""


def test_networks_are_allocated_without_any_room() -> None:
    assert len(ROOMS) > 15
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "240", ran.stderr


PLACED = "rramalloc.optimize('alexnet', 200, hardware='isaac', placed=True)"
RELOADED = "app(['optimize', 'alexnet', '--arrays', '200', '--reload'], standalone_mode=False)"


@pytest.mark.parametrize(
    ("room", "call", "words"),
    [
        pytest.param("place", PLACED, "placed: this installation has no commands/place", id="placed"),
        pytest.param("reload", RELOADED, "--reload: this installation has no commands/reload", id="reload"),
    ],
)
def test_what_needs_a_room_that_is_absent_says_so(room: str, call: str, words: str) -> None:
    made = f"""
import sys
sys.modules["rramalloc.commands.{room}.reload"] = sys.modules["rramalloc.commands.{room}.placed"] = None
import rramalloc
from rramalloc.cli.main import app
from rramalloc.errors import UnsupportedError
try:
    {call}
except UnsupportedError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", made], capture_output=True, text=True, check=False)
    assert ran.stdout.startswith(words), ran.stderr
