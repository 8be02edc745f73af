"""Figures: whole files of the right kind, the same every time, whatever names networks and layers have."""

from __future__ import annotations

import io
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import rramalloc
from rramalloc.errors import FileError, SpecError
from rramalloc.network.network import Network
from rramalloc.report import comparison, convergence, replication, style, timeline
from rramalloc.results.allocation import Allocation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOSTILE = ["$x_1$ <b>&amp;</b>", "a" * 900, "line\nbreak\x00\x1b[31m", "$", "\\frac{1}{2}$^$", "中文 ‮ \x7f"]
OF_ALLOCATION = {
    "replication": replication.draw,
    "timeline": timeline.draw,
    "convergence": convergence.draw,
}


def chain(names: list[str], title: str = "chain") -> Network:
    """1 x 1 convolutions in a row on 4 x 4 pixels."""
    nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": [2, 4, 4]}]
    for name in names:
        before = nodes[-1]["name"]
        nodes.append({"name": name, "op": "conv", "inputs": [before], "out_channels": 2, "kernel": 1})
    return Network.build(title, nodes)


def allocated(network: Network, spare: int = 3, **options: Any) -> Allocation:
    return rramalloc.optimize(network, len(network.stages) + spare, work=1, **options)


def drawings() -> list[Any]:
    """A function that draws, for each kind of figure."""
    found = [
        pytest.param(lambda network, draw=draw: draw(allocated(network)), id=name)
        for name, draw in OF_ALLOCATION.items()
    ]
    methods = ["auto", "none", "annealing", "isaac"]
    found.append(
        pytest.param(
            lambda network: comparison.draw(
                rramalloc.compare(network, ["x1", "x2"], methods=methods, work=1, seeds=2)
            ),
            id="comparison",
        )
    )
    return found


Drawing = Callable[[Network], "Figure"]


def texts_of(figure: Figure) -> list[str]:
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


@pytest.mark.parametrize("draw", drawings())
@pytest.mark.parametrize("names", [["only"], ["a", "b", "c"], HOSTILE], ids=["one layer", "three", "hostile"])
def test_every_kind_of_file(draw: Drawing, names: list[str], tmp_path: Path) -> None:
    network = chain(names, title=HOSTILE[0] if names == HOSTILE else "chain")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = draw(network)
        for kind in style.FORMATS:
            style.save(drawn, tmp_path / f"x.{kind}")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert (tmp_path / "x.pdf").read_bytes().startswith(b"%PDF-")
    assert ElementTree.fromstring((tmp_path / "x.svg").read_text()).tag.endswith("}svg")  # noqa: S314


@pytest.mark.parametrize("draw", drawings())
def test_same_bytes_again(draw: Drawing, tmp_path: Path) -> None:
    network = chain(["a", "b"])
    written = []
    for place in range(2):
        path = tmp_path / f"{place}.svg"
        style.save(draw(network), path)
        written.append(path.read_bytes())
    assert written[0] == written[1]
    assert b"dc:date" not in written[0]


@pytest.mark.parametrize("draw", drawings())
def test_axes_have_units_and_the_figure_a_title(draw: Drawing) -> None:
    drawn = draw(chain(["a", "b"]))
    assert drawn.get_suptitle().startswith("chain")
    labels = [label for axes in drawn.axes for label in (axes.get_xlabel(), axes.get_ylabel()) if label]
    assert labels
    for label in labels:
        assert "[" in label or label == "makespan / makespan of auto"


@pytest.mark.parametrize("draw", [replication.draw, timeline.draw])
def test_layers_by_name_in_network_order(draw: Callable[[Allocation], Figure]) -> None:
    drawn = draw(allocated(chain(["zeta", "alpha", "$mid$"])))
    axes = drawn.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["zeta", "alpha", r"\$mid\$"]
    bottom, top = axes.get_ylim()
    assert bottom > top  # the first layer is on top


def test_names_are_no_markup_in_the_file(tmp_path: Path) -> None:
    """Text is drawn as shapes, and stands beside them as a comment that cannot end early."""
    path = tmp_path / "x.svg"
    style.save(timeline.draw(allocated(chain(["--><script>alert(1)</script>"]))), path)
    root = ElementTree.fromstring(path.read_text())  # noqa: S314
    assert not [element for element in root.iter() if "script" in element.tag]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("conv1_1", "conv1_1", id="plain"),
        pytest.param("$a$", r"\$a\$", id="no formula"),
        pytest.param("a\nb\x07", "a?b?", id="control characters"),
        pytest.param("a" * 28, "a" * 28, id="just short enough"),
        pytest.param("a" * 20 + "b" * 20, "a" * 13 + "…" + "b" * 14, id="cut in the middle"),
        pytest.param("\ud800", "?", id="half a character"),
        pytest.param("", "", id="empty"),
    ],
)
def test_labels(text: str, shown: str) -> None:
    assert style.label(text) == shown


@pytest.mark.parametrize("count", [1, 13, 121, 160, 1000])
def test_names_stay_apart_however_many(count: int) -> None:
    """Every k-th name is shown, and the figure is no higher than a page."""
    drawn = replication.draw(allocated(chain([f"layer{place}" for place in range(count)])))
    names = drawn.axes[0].get_yticklabels()
    width_in, height_in = drawn.get_size_inches()
    assert width_in == style.WIDTH_IN
    assert height_in <= 10
    assert len(names) <= count
    assert height_in / len(names) >= 0.13
    if count <= 13:
        assert len(names) == count


def test_bars_of_the_timeline() -> None:
    """Two copies of a, one of b: a takes 8 steps, b starts after one and never waits, 17 in all."""
    network = chain(["a", "b"])
    drawn = timeline.draw(rramalloc.simulate(network, {"a": 2, "b": 1}))
    from matplotlib.patches import Rectangle

    bars = [patch for patch in drawn.axes[0].patches if isinstance(patch, Rectangle)]
    spans = [(bar.get_x(), bar.get_width()) for bar in bars]
    assert spans == [(0, 8), (1, 16), (8, 0), (17, 0)]
    assert "last to finish: b at 17" in drawn.get_suptitle()


def test_waiting_is_visible() -> None:
    """One copy of a, two of b: b has 8 batches from step 2 to 17, so it waits 7 steps."""
    drawn = timeline.draw(rramalloc.simulate(chain(["a", "b"]), {"a": 1, "b": 2}))
    from matplotlib.patches import Rectangle

    bars = [patch for patch in drawn.axes[0].patches if isinstance(patch, Rectangle)]
    assert [(bar.get_x(), bar.get_width()) for bar in bars] == [(0, 16), (2, 8), (16, 0), (10, 7)]
    assert bars[3].get_hatch()


def test_convergence_ends_where_the_search_ended() -> None:
    allocation = rramalloc.optimize("squeezenet", 256, work=5)
    lines = convergence.draw(allocation).axes[0].get_lines()
    best, bound = ([int(value) for value in line.get_ydata()] for line in lines)
    assert (best[-1], bound[-1]) == (allocation.makespan, allocation.lower_bound)
    assert best == sorted(best, reverse=True)
    assert bound == sorted(bound)
    seconds = [float(value) for value in lines[0].get_xdata()]
    assert seconds == sorted(seconds)
    assert seconds[-1] == allocation.seconds


def test_convergence_of_a_method_that_tells_nothing() -> None:
    drawn = convergence.draw(allocated(chain(["a", "b"]), method="interval"))
    assert "proven optimal" in drawn.get_suptitle() or "gap" in drawn.get_suptitle()


def test_bars_of_the_comparison_say_the_makespan() -> None:
    """`none` takes 17 steps, auto 9: 1.889 times as long."""
    found = rramalloc.compare(chain(["a", "b"]), [4], methods=["auto", "none"])
    texts = texts_of(comparison.draw(found))
    assert "9 (1.000)" in texts
    assert "17 (1.889)" in texts
    assert "4 arrays" in texts


def test_very_long_bars_are_cut_and_marked() -> None:
    found = rramalloc.compare("vgg16", 2048, methods=["none", "interval", "proportional"])
    drawn = comparison.draw(found)
    assert "» 50,942 (51.457)" in texts_of(drawn)  # 50942 / 990
    assert drawn.axes[0].get_xlim()[1] < 5


def test_many_budgets_are_drawn_from_the_first_to_the_last() -> None:
    found = rramalloc.compare(chain(["a", "b"]), list(range(2, 32)), methods=["none", "uniform"])
    drawn = comparison.draw(found)
    titles = [axes.get_title(loc="left") for axes in drawn.axes]
    assert len(titles) == 8
    assert (titles[0], titles[-1]) == ("2 arrays", "31 arrays")


def test_kind_and_place_are_checked(tmp_path: Path) -> None:
    style.check_figure(None)
    style.check_figure(tmp_path / "x.SVG")
    with pytest.raises(SpecError, match=r"must end in \.svg"):
        style.check_figure(tmp_path / "x.gif")
    with pytest.raises(FileError, match="does not exist"):
        style.check_figure(tmp_path / "none" / "x.svg")


def test_settings_of_the_user_come_back() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    timeline.draw(allocated(chain(["a"]))).savefig(io.BytesIO(), format="svg")
    assert dict(mpl.rcParams) == before
