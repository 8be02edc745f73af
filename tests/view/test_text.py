"""CSV, Markdown and LaTeX of tables: what they hold, and that names stay text in each of them."""

from __future__ import annotations

import csv
import io
import re
from operator import methodcaller
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rramalloc.view.text import csv_of, latex_of, markdown_of
from rramalloc.view.view import Column, Table, View, table

pytestmark = pytest.mark.quick


class Row(NamedTuple):
    """A row of any table."""

    name: str
    arrays: int = 1234
    block: tuple[int, int] | None = None
    latency_ns: float | None = 1500.0
    gap: float = 0.0251


COLUMNS = "layer=name, arrays, block?, latency_ns, gap"


def view(*rows: Row, more: tuple[Table, ...] = ()) -> View:
    return View(kind="", title="", tables=(table("Layers", rows, COLUMNS), *more))


def test_csv_has_exact_values_under_the_names_of_fields() -> None:
    """Without optional columns that have no values, with others that have none."""
    assert csv_of(view(Row("conv1", latency_ns=None))) == ("name,arrays,latency_ns,gap\nconv1,1234,,0.0251\n")
    assert csv_of(view(Row("conv1", block=(1, 2)))).splitlines()[1] == "conv1,1234,1x2,1500.0,0.0251"


def test_markdown_by_hand() -> None:
    assert markdown_of(view(Row("conv1"), Row("a|b_c"))) == (
        "| layer | arrays | latency (us) | gap |\n"
        "| :-- | --: | --: | --: |\n"
        "| conv1 | 1234 | 1.5 | 2.51 % |\n"
        "| a\\|b_c | 1234 | 1.5 | 2.51 % |\n"
    )


def test_latex_by_hand() -> None:
    assert latex_of(view(Row("conv_1"))) == (
        "% needs \\usepackage{booktabs}\n"
        "\\begin{tabular}{lrrr}\n\\toprule\nlayer & arrays & latency (us) & gap \\\\\n\\midrule\n"
        "conv\\_1 & 1234 & 1.5 & 2.51 \\% \\\\\n\\bottomrule\n\\end{tabular}\n"
    )


def test_columns_of_siunitx_by_hand() -> None:
    """Numbers have a column S as wide as they are; headings and what is no number stand in braces."""
    rows = [{"name": "a", "steps": 12.5, "ns": 1500.0}, {"name": "b", "steps": 123456.7, "ns": None}]
    columns = tuple(
        Column(name, name, methodcaller("get", name), given="ns" if name == "ns" else "")
        for name in ("name", "steps", "ns")
    )
    shown = View(kind="", title="", tables=(Table("", rows, columns),))
    assert latex_of(shown, si=True) == (
        "% needs \\usepackage{booktabs,siunitx}; --plain-units needs no siunitx\n"
        "\\begin{tabular}{lS[table-format=6.1]S[table-format=1.1]}\n\\toprule\n"
        "name & {steps} & {ns (\\si{\\micro\\second})} \\\\\n\\midrule\n"
        "a & 12.5 & 1.5 \\\\\nb & 123500 & {-} \\\\\n\\bottomrule\n\\end{tabular}\n"
    )


def test_latex_says_which_letters_need_another_program_than_pdflatex() -> None:
    """pdfLaTeX ends with an error at Greek letters, which its fonts lack; it sets those of Latin ones."""
    assert latex_of(view(Row("ré\u017e\u2013\u03b2\u03b1\u03b2"))).splitlines()[0] == (
        "% needs \\usepackage{booktabs}; XeLaTeX or LuaLaTeX, and a font with \u03b1\u03b2"
    )
    assert latex_of(view(Row("ré\u017e\u2013"))).startswith("% needs \\usepackage{booktabs}\n")


def test_a_long_name_leaves_a_line_of_latex_room_for_its_numbers() -> None:
    """A name has no spaces: it may be broken behind its own marks; a table that fits stays."""
    name = "mobilenet_edgetpu-v2/large_quantised_for_crossbars_224"
    columns = [Column(each, each, methodcaller("get", each)) for each in ("network", *"abcde")]
    rows = [{"network": name, **dict.fromkeys("abcde", 1234)}]
    wide = latex_of(View(kind="", title="", tables=(Table("", rows, tuple(columns)),)), caption="C")
    assert wide.splitlines()[:5] == [
        "% needs \\usepackage{booktabs,tabularx}",
        "\\begin{table}",
        "\\centering",
        "\\caption{C}",
        "\\begin{tabularx}{\\linewidth}{>{\\raggedright\\arraybackslash}Xrrrrr}",
    ]
    broken = "mobilenet\\_|edgetpu-|v2/|large\\_|quantised\\_|for\\_|crossbars\\_|224"
    assert f"\n{broken} & 1234 &".replace("|", "\\allowbreak{}") in wide
    assert wide.endswith("\\end{tabularx}\n\\end{table}\n")
    narrow = latex_of(View(kind="", title="", tables=(Table("", rows, tuple(columns[:2])),)))
    assert "tabularx" not in narrow
    assert "allowbreak" not in narrow
    heads = [Column(each * 11, each, methodcaller("get", each)) for each in "abcde"]
    shorter = [{**rows[0], "network": "mobilenet_v1_025"}]
    assert "tabularx" in latex_of(View(kind="", title="", tables=(Table("", shorter, (columns[0], *heads)),)))


def test_further_tables_stand_under_their_titles() -> None:
    """Not those that a terminal does not print, and of a ranking as many rows as there."""
    ranking = table("Ranking", [Row("a"), Row("b")], "name", shown=1)
    shown = view(Row("conv1"), more=(ranking, table("Page", [Row("a")], "name", shown=0)))
    assert markdown_of(shown).endswith("\n**Ranking**\n\n| name |\n| :-- |\n| a |\n")
    assert latex_of(shown).count("tabular") == 4
    assert "% Ranking\n\\begin{tabular}{l}\n" in latex_of(shown)


def test_a_table_that_no_terminal_prints_is_written_where_it_is_the_only_one() -> None:
    hidden = View(kind="", title="", tables=(table("", [Row("a")], "name", shown=0),))
    assert markdown_of(hidden) == "| name |\n| :-- |\n| a |\n"


NAMES = st.text(st.sampled_from("ab_*|\\`<>[]{}&%$#~^=+-@\n\t\x1b é"), min_size=1, max_size=12)


@given(NAMES)
def test_a_name_is_one_cell_of_markdown_without_markup(name: str) -> None:
    """Every special stands behind a backslash, so that a row has its cells and a name no markup."""
    row = markdown_of(view(Row(name))).splitlines()[2]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 5
    cell = row[2:].split(" | 1234 | ")[0]
    bare = re.sub(r"\\[\\`*|<>\[\]~$_]|&amp;", "", cell)
    assert not set(bare) & set("\\`*|<>[]~$&\n\x1b")
    assert not re.search(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", re.sub(r"\\.", "a", cell))


@given(NAMES)
def test_a_name_is_one_cell_of_latex_without_commands(name: str) -> None:
    row = latex_of(view(Row(name))).splitlines()[5]
    cell = row.split(" & 1234 & ")[0]
    known = r"\\(?:textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar)\{\}|\\[&%$#_{}]"
    bare = re.sub(known + r"|\{[\[\]*]\}", "", cell)
    assert not set(bare) & set("\\{}&%$#_^~<>|[]*\n\x1b")


@given(NAMES)
def test_a_name_is_no_formula_in_csv(name: str) -> None:
    (_, row) = csv.reader(io.StringIO(csv_of(view(Row(name)))))
    assert not row[0].startswith(("=", "+", "-", "@"))
    assert row[0].isprintable()


@pytest.mark.parametrize(
    ("field", "values", "heading", "cells"),
    [
        ("time_ns", (2.5e6, 1500.0, None, 0.0), "time (ms)", ["2.5", "0.0015", "-", "0"]),
        ("time_ns", (12.0, 13), "time (ns)", ["12", "13"]),
        ("area_um2", (9999.0, 1e4), "area (mm2)", ["0.009999", "0.01"]),
        ("edp", (2e12, 5e9), "EDP (nJ s)", ["2", "0.005"]),
        ("work_s", (0.02, 1e-6), "work (ms)", ["20", "0.001"]),
        ("bandwidth_gb_s", (128.0, 12.5), "bandwidth (GB/s)", ["128", "12.5"]),
        ("value[um2]", (120.0, 440.0), "value (um2)", ["120", "440"]),
        ("value[steps]", (120, 440), "value", ["120", "440"]),
        ("bytes", (285344.25, 387200.0), "bytes", ["285,300", "387,200"]),
        ("bytes", (387200.0, 5), "bytes", ["387200", "5"]),
        ("gap", (0.25, 1e-6), "gap", ["25 %", "< 0.01 %"]),
        ("ratio", (1.0, 13.8364), "ratio", ["1.000", "13.836"]),
        ("value", ("128x128", 123456, 0.5), "value", ["128x128", "123456", "0.5"]),
        ("exact", (True, False), "exact", ["yes", ""]),
    ],
)
def test_a_column_has_one_unit_and_one_style(
    field: str, values: tuple[object, ...], heading: str, cells: list[str]
) -> None:
    (column,) = table("", [], field).columns
    assert column.shown(values) == (heading, cells)
