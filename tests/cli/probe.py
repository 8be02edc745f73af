"""Which modules a command imports, told by a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence


def imported(names: Sequence[str], *arguments: str, env: Mapping[str, str] | None = None) -> tuple[str, str]:
    """What a command writes to stdout, and all that is on stderr: the list of those names it imported."""
    code = (
        "import sys\nfrom rramalloc.cli.main import main\nsys.argv[0] = 'rramalloc'\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"print([name for name in {tuple(names)!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | dict(env or {}),
    )
    return done.stdout, done.stderr
