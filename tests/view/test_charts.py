"""Charts: whole files of the right kind, the same every time, whatever names networks and layers have."""

from __future__ import annotations

import json
import re
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands.place.machines import chain as placed_chain
from commands.place.machines import chip, machine
from program import run

import rramalloc
from rramalloc.allocation.allocation import Allocation
from rramalloc.allocation.layers import copies_chart
from rramalloc.allocation.timeline import timeline_chart
from rramalloc.chart import FORMATS, LAYERS, Axis, Chart, Marks, Panel, fills, label, labels
from rramalloc.commands.compare.view import methods_chart
from rramalloc.commands.optimize.convergence import convergence_chart
from rramalloc.commands.place.chip_map import chip_map
from rramalloc.commands.place.placement import Placement
from rramalloc.errors import SpecError
from rramalloc.network.network import Network

pytestmark = pytest.mark.quick

HOSTILE = ["$x_1$ <b>&amp;</b>", "a" * 900, "line\nbreak\x00\x1b[31m", "$", "\\frac{1}{2}$^$", "中文 ‮ \x7f"]


def chain(names: list[str], title: str = "chain") -> Network:
    """1 x 1 convolutions in a row on 4 x 4 pixels."""
    nodes: list[dict[str, Any]] = [{"name": "in", "op": "input", "shape": [2, 4, 4]}]
    for name in names:
        before = nodes[-1]["name"]
        nodes.append({"name": name, "op": "conv", "inputs": [before], "out_channels": 2, "kernel": 1})
    return Network.build(title, nodes)


def allocated(network: Network, spare: int = 3, **options: Any) -> Allocation:
    return rramalloc.optimize(network, len(network.stages) + spare, work=1, **options)


def compared(network: Network) -> Chart:
    methods = ["auto", "none", "annealing", "isaac"]
    return methods_chart(rramalloc.compare(network, ["x1", "x2"], methods=methods, work=1, seeds=2))


Draw = Callable[[Network], Chart]
DRAWN: dict[str, Draw] = {
    "copies": lambda network: copies_chart(allocated(network)),
    "timeline": lambda network: timeline_chart(allocated(network)),
    "convergence": lambda network: convergence_chart(allocated(network)),
    "comparison": compared,
}
every_chart = pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)


@every_chart
@pytest.mark.parametrize("names", [["only"], ["a", "b", "c"], HOSTILE], ids=["one layer", "three", "hostile"])
def test_every_kind_of_file(draw: Draw, names: list[str], tmp_path: Path) -> None:
    network = chain(names, title=HOSTILE[0] if names == HOSTILE else "chain")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = draw(network)
        for kind in FORMATS:
            drawn.save(tmp_path / f"x.{kind}")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert (tmp_path / "x.pdf").read_bytes().startswith(b"%PDF-")
    assert ElementTree.fromstring((tmp_path / "x.svg").read_text()).tag.endswith("}svg")  # noqa: S314


def layers_of(chart: Chart, key: str) -> list[Marks]:
    return [
        layer
        for panel in chart.panels
        for layer in panel.layers
        if layer.key is not None and layer.key.name == key
    ]


def spans(chart: Chart, key: str) -> list[tuple[int, int]]:
    """First and last step of every bar of a timeline."""
    (layer,) = layers_of(chart, key)
    left, right = (layer.data[str(layer.channels[channel])] for channel in ("x2", "x"))
    return list(zip(left, right, strict=True))


def words_of(chart: Chart) -> list[str]:
    layers = [layer for panel in chart.panels for layer in panel.layers if layer.mark["type"] == "text"]
    return [text for layer in layers for text in layer.data["words"]]


@every_chart
def test_one_description_for_page_and_file(draw: Draw) -> None:
    """The same marks of the same data: only the form of the rows, the colours and the legend differ."""
    chart = draw(chain(["a", "b"]))
    for file, page in zip(chart.spec["concat"], chart.page_specs(), strict=True):
        for one, two in zip(file["layer"], page["layer"], strict=True):
            columns = two["data"]["columns"]
            rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            assert one["data"]["values"] == rows
            assert one["mark"] == two["mark"]
            assert one["transform"] == two["transform"]
            assert one["encoding"].keys() == two["encoding"].keys()


def test_layers_by_name_in_network_order() -> None:
    chart = timeline_chart(allocated(chain(["zeta", "alpha", "$mid$"])))
    (panel,) = chart.panels
    assert panel.y.names == ("zeta", "alpha", "$mid$")
    position = chart.spec["concat"][0]["layer"][0]["encoding"]["y"]
    assert position["scale"]["reverse"], "the first layer is on top"
    assert copies_chart(allocated(chain(["zeta", "alpha"]))).panels[1].x.names == ("zeta", "alpha")


def test_names_are_no_markup_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    timeline_chart(allocated(chain(["--><script>alert(1)</script>"]))).save(path)
    root = ElementTree.fromstring(path.read_text())  # noqa: S314
    assert not [element for element in root.iter() if "script" in element.tag]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\x07", "a?b?"),
        ("a" * 28, "a" * 28),
        ("a" * 20 + "b" * 20, "a" * 13 + "…" + "b" * 14),
        ("\ud800", "?"),
    ],
)
def test_labels(text: str, shown: str) -> None:
    assert label(text) == shown


@pytest.mark.parametrize("longest", [12, 28])
@pytest.mark.parametrize(
    "names",
    [
        [f"backbone.features.denseblock3.denselayer{n}.conv2.weight_quantised" for n in range(24)],
        ["a" * 40 + "x" + "b" * 40 + str(n) + "c" * 40 for n in range(3)],
        ["same.name.of.a.layer.that.is.long"] * 2 + ["same.name.of.a.layer.it.is.not.long"],
    ],
    ids=["torchvision", "differ in the middle", "given twice"],
)
def test_two_labels_never_read_alike(names: list[str], longest: int) -> None:
    shown = labels(names, longest)
    assert len(set(shown)) == len(set(names))
    assert max(map(len, shown)) <= longest
    assert [shown[names.index(name)] for name in names] == [*shown]


def test_labels_keep_the_words_in_which_names_differ() -> None:
    """Blocks, layers and convolutions differ: as many letters stand before each as fit."""
    names = [
        f"/features/denseblock{b}/denselayer{n}/conv{c}/Conv" for b, n, c in product((1, 2), (1, 2), (1, 2))
    ]
    shown = labels(names)
    assert shown[0] == "…nseblock1…nselayer1/conv1…"
    assert shown[-1] == "…nseblock2…nselayer2/conv2…"


def drawn_texts(chart: Chart) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]+)<", chart._repr_svg_())


def test_an_axis_of_equal_values_is_a_tenth_of_them_wide() -> None:
    """One um2 around 13,030,150 had ticks of ten digits; of a number of steps the next ones are shown."""
    axis = Axis.around("area", [13_030_150.0] * 2, unit="um2")
    assert axis.high - axis.low == pytest.approx(1_303_015)
    steps = Axis.around("steps", [0, 0])
    assert (steps.low, steps.high) == (-1, 1)
    arrays = Axis.around("arrays", [4], integers=True)
    assert (arrays.low, arrays.high) == (3, 5)


def test_areas_of_an_axis_are_in_the_unit_of_tables() -> None:
    """0.02 to 0.06 mm2: a table shows areas from 0.01 mm2 on in it."""
    axis = Axis.around("area", [20_000.0, 60_000.0], unit="um2")
    marks = Marks({"type": "point"}, {"x": [20_000.0, 60_000.0], "y": [0, 1]}, {"x": "x", "y": "y"})
    texts = drawn_texts(Chart("areas", (Panel(axis, Axis("", 0, 1), 100, (marks,)),), "two points"))
    assert "area [mm2]" in texts
    assert "0.04" in texts
    assert "40,000" not in texts


def test_an_axis_of_one_row_has_no_halves() -> None:
    axis = Axis("row", -0.7, 0.7, integers=True)
    marks = Marks({"type": "point"}, {"x": [0], "y": [0]}, {"x": "x", "y": "y"})
    chart = Chart("rows", (Panel(Axis("", 0, 1, shown=False), axis, 180, (marks,)),), "one point")
    assert [text for text in drawn_texts(chart) if text.strip()] == ["0", "row"]


def test_small_multiples_stand_beside_each_other_where_they_fit() -> None:
    networks = [chain(["a", "b"], title=f"net{place}") for place in range(5)]
    compared = rramalloc.compare(networks, [3, 4], methods=["auto", "none"], work=1)
    beside = [
        compared.plot.methods(by="network", width=width).spec["columns"] for width in (None, 1000, 600, 300)
    ]
    assert beside == [3, 3, 2, 1]


def test_multiples_of_the_minimum_are_panels_of_all_networks() -> None:
    """Networks of 2 and 3 layers need as many arrays: x1 and x2 are 2 and 4 of one, 3 and 6 of the other."""
    networks = [chain(["a", "b"], title="two"), chain(["a", "b", "c"], title="three")]
    compared = rramalloc.compare(networks, ["x1", "x2"], methods=["auto", "none"], work=1)
    chart = compared.plot.methods(by="budget")
    assert [panel.title for panel in chart.panels] == ["budget 1: 2 to 3 arrays", "budget 2: 4 to 6 arrays"]
    assert [panel.x.names for panel in chart.panels] == [("two", "three")] * 2


def test_bars_of_the_timeline() -> None:
    """Two copies of a, one of b: a takes 8 steps, b starts after one and never waits, 17 in all."""
    chart = timeline_chart(rramalloc.simulate(chain(["a", "b"]), {"a": 2, "b": 1}))
    assert spans(chart, "computing") == [(0, 8), (1, 17)]
    assert spans(chart, "waiting for input (sum)") == [(8, 8), (17, 17)]
    assert "last to finish: b at 17" in chart.heading[1]


def test_bars_of_the_comparison_say_the_makespan() -> None:
    """`none` takes 17 steps, auto 9: 1.889 times as long. The rows have one height."""
    chart = methods_chart(rramalloc.compare(chain(["a", "b"]), [4], methods=["auto", "none"]))
    assert words_of(chart) == ["9 (1.000)", "17 (1.889)"]
    axis = chart._panel(0, 400)["layer"][0]["encoding"]["x"]["scale"]["domainMax"]["expr"]
    assert axis.endswith("* 400 / max(400 / 3, 400 - 70)"), "10 letters have their place in a narrow picture"
    assert chart.title == "Methods with 4 arrays"
    drawn = [layer for panel in chart.panels for layer in panel.layers if layer.mark["type"] == "rect"]
    assert len(drawn) == 2
    assert all(layer.derived == drawn[0].derived for layer in drawn)


# The map of the chips


@pytest.fixture
def placement() -> Placement:
    hardware = machine(chip(4, (2, 3), (1, 2)), (10, 4))
    return rramalloc.place(placed_chain(2, 5, side=4, kernel=3), {"c1": 3, "c2": 5}, hardware=hardware)


def test_every_array_is_a_square_in_the_colour_of_its_layer(placement: Placement) -> None:
    chart = chip_map(placement)
    (squares,) = [layer for layer in chart.panels[0].layers if "replica" in layer.data]
    assert list(squares.data["layer"]) == [array.layer for array in placement.arrays]
    colour = squares.channels["color"]
    assert colour["legend"]["title"] == "layer, in network order"
    assert colour["scale"]["domain"] == ["0 c1", "1 c2"]
    assert set(squares.data[colour["field"]]) == {"0 c1", "1 c2"}


def test_a_timeline_draws_every_pause_where_it_is() -> None:
    """Stage b waits for the rows of a between its own: drawn with the network alone."""
    network = chain(["a", "b"])
    result = rramalloc.simulate(network, {"a": 1, "b": 2})
    without = [key.name for key in result.plot.timeline().keys]
    drawn = result.plot.timeline(network=network)
    assert "waiting for input (sum)" in without
    assert [key.name for key in drawn.keys] == ["computing", "waiting for input", "critical path"]
    busy, waits = drawn.panels[0].layers[:2]
    spans = sorted(
        (row, left, right)
        for each in (busy, waits)
        for row, left, right in zip(each.data["row"], each.data["left"], each.data["right"], strict=True)
    )
    for row, layer in enumerate(result.layers):
        own = [(left, right) for at, left, right in spans if at == row]
        assert (own[0][0], own[-1][1]) == (layer.start, layer.finish)
        assert all(one[1] == two[0] for one, two in pairwise(own))
    assert len(waits.data["row"]) > 1


def test_numbers_of_tiles_stand_where_they_have_room() -> None:
    """1 x 137 tiles on 520 pixels are 4 wide each, 1 x 3 have room for a digit and its halo."""
    for tiles, shown in ((137, 0), (3, 3)):
        hardware = machine(chip(4, (1, tiles), (1, 1)), (10, 4))
        placed = rramalloc.place(placed_chain(2, 5, side=4, kernel=3), {"c1": 3, "c2": 2}, hardware=hardware)
        drawn = placed.plot.chip_map()._repr_svg_()
        numbers = re.findall(r'<text[^>]*font-weight="bold"[^>]*>', drawn)
        assert len([text for text in numbers if 'opacity="0"' not in text]) == 2 * shown, tiles


# Axes, order and words


@pytest.mark.parametrize(
    ("values", "scale"),
    [([1, 20], "linear"), ([1, 21], "log"), ([0, 1000], "linear"), ([-5, 1000], "linear"), ([7], "linear")],
)
def test_an_axis_is_logarithmic_where_the_range_asks_for_it(values: list[float], scale: str) -> None:
    axis = Axis.around("steps", values)
    assert axis.scale == scale
    assert axis.low < min(values)
    assert axis.high > max(values)


def test_no_baseline_covers_a_point_of_the_front() -> None:
    front = rramalloc.pareto(chain(["a", "b"]), 6, baselines=["uniform", "none"], work=1)
    chart = front.plot.front()
    (panel,) = chart.panels
    assert [key.name for key in chart.keys] == ["front", "lower bound", "uniform", "none"]
    assert panel.layers[-1].mark["type"] == "circle"
    assert panel.layers[-1].data["value"] == [point.value for point in front.points]


def test_busy_is_the_time_in_which_a_layer_computes() -> None:
    """Layer a has 8 batches of the makespan of 17, b all 16 of its own."""
    chart = copies_chart(rramalloc.simulate(chain(["a", "b"]), {"a": 2, "b": 1}))
    (columns,) = layers_of(chart, "busy")
    assert columns.data["busy"] == [47.059, 94.118]


def test_names_of_every_layer_or_of_none() -> None:
    """45 names, slanted by 60 degrees, need 13 pixels each: 585 in all."""
    chart = copies_chart(rramalloc.simulate(chain([f"layer{place}" for place in range(45)]), {}))
    (axis,) = [layer["encoding"]["x"]["axis"] for layer in chart.spec["concat"][1]["layer"][:1]]
    assert axis["labelOverlap"] is False
    assert axis["values"] == list(range(45))

    def shown(width: int | None) -> list[str]:
        drawn = replace(chart, width=width)._repr_svg_()
        words = re.findall(r"rotate\(300\)[^>]*>([^<]+)<", drawn)
        return [word for word in words if word]

    assert shown(1200) == [f"layer{place}" for place in range(45)]
    assert shown(None) == shown(400) == ["0", "5", "10", "15", "20", "25", "30", "35", "40"]


def test_long_names_keep_their_ends_in_a_narrow_picture() -> None:
    names = [f"block_of_one_kind_conv{place}" for place in range(3)]
    chart = replace(timeline_chart(rramalloc.simulate(chain(names), {})), width=240)
    for place in range(3):
        assert re.search(rf">block\w*…\w*nv{place}<", chart._repr_svg_())


# Colours


def oklab(colour: str) -> np.ndarray:
    """Coordinates in OKLab of a colour of sRGB (Ottosson 2020)."""
    light = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(light <= 0.04045, light / 12.92, ((light + 0.055) / 1.055) ** 2.4)
    to_cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    to_lab = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.array(to_lab) @ np.cbrt(np.array(to_cones) @ linear)


def test_oklab_of_colours_with_known_coordinates() -> None:
    assert oklab("#ffffff") == pytest.approx([1, 0, 0], abs=1e-4)
    assert oklab("#ff0000") == pytest.approx([0.62796, 0.22486, 0.12585], abs=1e-4)


def test_colours_of_24_layers_are_distinct_in_light_and_dark() -> None:
    """0.14 in OKLab is seven times the least difference that is seen, about 0.02."""
    assert len(LAYERS) == 24
    for one, two in combinations(LAYERS, 2):
        assert np.linalg.norm(oklab(one) - oklab(two)) >= 0.14, (one, two)
    style = (Path(rramalloc.__file__).parent / "commands/report/page.css").read_text()
    pages = {*re.findall(r"--card: (#[0-9a-f]{6})", style), "#ffffff"}
    assert len(pages) > 1
    for colour, page in product(LAYERS, pages):
        assert np.linalg.norm(oklab(colour) - oklab(page)) >= 0.18, (colour, page)


def test_further_layers_are_hatched() -> None:
    every = fills(120)
    assert every[:24] == list(LAYERS)
    assert len({str(fill) for fill in every}) == 120
    assert all("gradient" in json.loads(fill["expr"]) for fill in every[24:])


def test_hatched_layers_are_drawn() -> None:
    hardware = machine(chip(64, (1, 1), (1, 1)), (10, 4))
    network = placed_chain(*[2] * 28, side=4, kernel=3)
    drawn = rramalloc.place(network, {}, hardware=hardware).plot.chip_map()._repr_svg_()
    assert "#0087a5" in drawn
    assert re.search(r'fill="url\(#gradient_\d+\)"', drawn)


# Width


@pytest.mark.parametrize("width", [400, 1200])
@every_chart
def test_a_picture_has_the_width_that_is_asked_for(draw: Draw, width: int, tmp_path: Path) -> None:
    chart = replace(draw(chain(["a", "b", *HOSTILE], title="广" * 90)), width=width)
    root = ElementTree.fromstring(chart._repr_svg_())  # noqa: S314
    assert root.get("width") == str(width)
    chart.save(tmp_path / "x.png")
    assert int.from_bytes((tmp_path / "x.png").read_bytes()[16:20], "big") == width


@pytest.mark.parametrize("width", [0, -1, 239, 10_001, 10**400, 400.5])
def test_widths_of_no_picture(width: int) -> None:
    with pytest.raises(SpecError, match="240 to 10,000 pixels"):
        rramalloc.simulate(chain(["a"]), {}).plot.copies(width=width)


def test_figure_width_on_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    small = ["pareto", "alexnet", "--arrays", "300", "--work", "1", "-q"]
    assert run(*small, "--figure", str(path), "--figure-width", "700").code == 0
    assert 'width="700"' in path.read_text()
    without = run(*small, "--figure-width", "700")
    assert (without.code, "--figure-width needs --figure" in without.err) == (2, True)
    narrow = run(*small, "--figure", path, "--figure-width", "7")
    assert (narrow.code, "240 to 10,000 pixels" in narrow.err) == (1, True)
