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
proof         proven optimal: 3 nodes
"""


@pytest.mark.parametrize(
    ("old", "new", "caught"),
    [
        pytest.param("", "", False, id="equal"),
        pytest.param("16       16", "14       14", False, id="other copies"),
        pytest.param("proven optimal: 3 nodes", "bounded: the work is used up", False, id="proof"),
        pytest.param("4009 steps", "4001 steps", False, id="a little faster"),
        pytest.param("4009 steps", "4400 steps", True, id="slower"),
        pytest.param("4009 steps", "4009 ns", True, id="unit"),
        pytest.param("1024 used", "900 used", True, id="arrays"),
        pytest.param("replication", "copies", True, id="column"),
        pytest.param("conv1_1", "conv1_2", True, id="layer"),
        pytest.param("makespan      4009 steps\n", "", True, id="missing line"),
        pytest.param("proof   ", "reason  ", True, id="label"),
    ],
)
def test_where_a_page_searches(old: str, new: str, caught: bool) -> None:
    assert bool(differences(SHOWN.replace(old, new) if old else SHOWN, SHOWN, searches=True)) == caught


def test_where_a_page_does_not_search_every_character_counts() -> None:
    assert not differences(SHOWN, SHOWN, searches=False)
    assert differences(SHOWN.replace("50176", "50177"), SHOWN, searches=False)
