"""What the comparison of a page with the real output lets pass, and what it does not."""

from __future__ import annotations

import pytest
from pages import differences

SHOWN = """\
layer     windows   replication   arrays
────────────────────────────────────────
conv1_1     50176            16       16

arrays        1024 used of 1024 (at least 902 are needed)
makespan      4009 steps
proof         proven optimal: branch and bound, 1,203 nodes; no other is as fast
search        24.71 ms of work on a reference core
"""


@pytest.mark.parametrize(
    ("old", "new", "caught"),
    [
        pytest.param("", "", False, id="equal"),
        pytest.param("1,203 nodes", "3 nodes", False, id="nodes"),
        pytest.param("1,203 nodes", "1 node", False, id="one node"),
        pytest.param("24.71 ms", "1.2 s", False, id="work"),
        pytest.param("16       16", "14       14", True, id="other copies"),
        pytest.param("proven optimal", "bounded", True, id="proof"),
        pytest.param("4009 steps", "4008 steps", True, id="a step"),
        pytest.param("4009 steps", "4009 ns", True, id="unit"),
        pytest.param("replication", "copies     ", True, id="column"),
        pytest.param("conv1_1", "conv1_2", True, id="layer"),
        pytest.param("makespan      4009 steps\n", "", True, id="missing line"),
    ],
)
def test_only_the_effort_of_a_search_is_free(old: str, new: str, caught: bool) -> None:
    assert bool(differences(SHOWN.replace(old, new) if old else SHOWN, SHOWN)) == caught


@pytest.mark.parametrize(
    ("shown", "caught"),
    [
        pytest.param("...\nc 3\n...\n", False, id="a line"),
        pytest.param("a 1\n...\nd 4\n", False, id="both ends"),
        pytest.param("a 1\n...\nc 3\nd 4\n", False, id="two lines at the end"),
        pytest.param("...\nd 4\n...\nb 2\n...\n", True, id="order"),
        pytest.param("b 2\n...\n", True, id="not the beginning"),
        pytest.param("...\nc 3\n", True, id="not the end"),
        pytest.param("...\nb 2\nd 4\n", True, id="a line between"),
        pytest.param("...\nc 5\n...\n", True, id="another value"),
    ],
)
def test_lines_that_a_page_leaves_out(shown: str, caught: bool) -> None:
    assert bool(differences("a 1\nb 2\n\nc 3\nd 4\n", shown)) == caught
