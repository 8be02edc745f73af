"""The page in a real browser: drawn, quiet, offline, usable by mouse and keys, in order at every width."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from commands.report.results import HOSTILE
from commands.report.visit import DRAWN, WIDTHS

from rramalloc.commands.report.report import report

pytestmark = pytest.mark.browser
MARKS = """
() => [...document.querySelectorAll('.plot')].map((plot) =>
  [...plot.querySelectorAll('.role-mark path, .role-mark line, .role-mark text')].filter((mark) => {
    const box = mark.getBoundingClientRect();
    return box.width + box.height > 0;
  }).length)
"""
RANGE = "(n) => { const view = rramallocCharts[n][0]; return [view.signal('x_low'), view.signal('x_high')]; }"
OVERLAPS = """
() => {
  const blocks = [...document.querySelectorAll('header, nav, .result > *:not(.hidden)')]
    .map((each) => each.getBoundingClientRect()).filter((box) => box.height > 0);
  const bad = [];
  for (let one = 0; one < blocks.length; one++)
    for (let two = one + 1; two < blocks.length; two++) {
      const [a, b] = [blocks[one], blocks[two]];
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
          Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1) bad.push([one, two]);
    }
  return bad;
}
"""
OUTSIDE = """
() => [...document.querySelectorAll('main *')].filter((each) => {
  if (each.closest('.scroll, .hidden, script')) return false;
  const box = each.getBoundingClientRect();
  return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
}).map((each) => each.tagName + '.' + each.className)
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_chart_is_drawn_and_nothing_overflows(
    width: int, scheme: str, visit: Any, shown: dict[str, Path]
) -> None:
    page = visit(shown, width=width, scheme=scheme).page
    page.wait_for_timeout(200)
    marks = page.evaluate(MARKS)
    assert len(marks) == page.locator(".chart").count() >= 9
    assert all(count >= 1 for count in marks), marks
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate(OVERLAPS) == []
    for button in page.locator("button:visible").all():
        box = button.bounding_box()
        assert box["width"] >= 24
        assert box["height"] >= 24


def cells(page: Any, column: int) -> list[str]:
    rows = page.locator("#r1 .table table").first.locator("tbody tr:not([hidden])")
    return [row.locator("td").nth(column).inner_text() for row in rows.all()]


def test_filter_and_download(visit: Any, shown: dict[str, Path]) -> None:
    page = visit(shown, "allocation").page
    box = page.locator("#r1 .table").first
    box.locator("input").fill("CONV2")
    assert cells(page, 1) == ["conv2"]
    assert box.locator(".count").inner_text() == "1 of 3 rows"
    box.locator("input").fill("")
    with page.expect_download() as waiting:
        box.locator(".csv").click()
    assert waiting.value.suggested_filename == "layers.csv"
    rows = list(csv.reader(io.StringIO(Path(waiting.value.path()).read_text(encoding="utf-8"))))
    assert rows[0][:3] == ["#", "Layer", "Windows"]
    assert [row[1] for row in rows[1:]] == ["conv1", "conv2", "conv3"]
    assert rows[1][2] == "256"


def test_zoom_by_buttons_keys_and_mouse(visit: Any, shown: dict[str, Path]) -> None:
    page = visit(shown, "allocation").page
    chart = page.locator(".chart").first
    low, high = page.evaluate(RANGE, 0)
    chart.get_by_role("button", name="Zoom in").click()
    inner = page.evaluate(RANGE, 0)
    assert inner[1] - inner[0] == pytest.approx(0.6 * (high - low))
    chart.get_by_role("button", name="Show all").click()
    assert page.evaluate(RANGE, 0) == pytest.approx([low, high])
    chart.locator(".plot").focus()
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    moved = page.evaluate(RANGE, 0)
    assert moved[0] == pytest.approx(inner[0] + 0.15 * (high - low))
    assert "Showing" in chart.locator("> [role=status]").inner_text()
    page.keyboard.press("0")
    assert page.evaluate(RANGE, 0) == pytest.approx([low, high])
    box = chart.locator(".plot").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 45, steps=5)
    page.mouse.up()
    page.wait_for_timeout(100)
    dragged = page.evaluate(RANGE, 0)
    assert low < dragged[0] < dragged[1] < high


def hover_text(page: Any, chart: Any) -> str:
    """What is shown while the pointer crosses a chart."""
    chart.scroll_into_view_if_needed()
    box = chart.locator(".plot").bounding_box()
    for down in (0.15, 0.3, 0.45, 0.6):
        for across in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7):
            page.mouse.move(box["x"] + box["width"] * across, box["y"] + box["height"] * down)
            page.wait_for_timeout(30)
            shown = page.locator("#vg-tooltip-element.visible")
            if shown.count() and shown.first.is_visible():
                return str(shown.first.inner_text())
    return ""


def test_every_control_is_reached_by_tab_and_named(visit: Any, shown: dict[str, Path]) -> None:
    page = visit(shown, "allocation", "placement").page
    wanted = page.locator(
        "button:visible, input:visible, summary:visible, .plot, .scroll:visible, nav a"
    ).count()
    seen = set()
    for _ in range(wanted + 20):
        page.keyboard.press("Tab")
        place = page.evaluate(
            "() => { const all = [...document.querySelectorAll('button,input,summary,.plot,.scroll,nav a')];"
            " return all.indexOf(document.activeElement); }"
        )
        if place >= 0:
            seen.add(place)
    assert len(seen) >= wanted
    for control in page.locator("button").all():
        assert control.get_attribute("aria-label") or control.inner_text() or control.text_content()
    for plot in page.locator(".plot").all():
        assert page.locator(f"#{plot.get_attribute('aria-labelledby')}").inner_text()
        assert len(page.locator(f"#{plot.get_attribute('aria-describedby')}").inner_text()) > 40


def test_hostile_names_stay_text(visit: Any, hostile: dict[str, Path]) -> None:
    page = visit(hostile).page
    assert page.evaluate("window.hit") is None
    assert page.locator("img").count() == 0
    assert page.title().startswith("Crossbar")
    assert cells(page, 1) == list(HOSTILE[:5])
    shown = hover_text(page, page.locator(".chart").first)
    assert any(name in shown for name in HOSTILE[:5]), shown
    assert page.locator("#vg-tooltip-element :is(img, script, b)").count() == 0
    assert page.evaluate("window.hit") is None


def test_tables_and_numbers_need_no_script(browser: Any, shown: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    report([shown["allocation"]], path)
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator("tbody tr:visible").count() >= 3
    assert "JavaScript" in page.inner_text("main")
    context.close()


WATCH = """
const unfinished = () =>
  [...document.querySelectorAll('.chart .plot')].filter((plot) => !plot.querySelector('svg')).length;
addEventListener('load', () => {
  globalThis.atLoad = unfinished();
  dispatchEvent(new Event('beforeprint'));
  setTimeout(() => { globalThis.printed = unfinished(); });
});
"""


@pytest.mark.parametrize("pages", [1, 6])
def test_what_has_loaded_or_is_printed_is_whole(
    pages: int, browser: Any, shown: dict[str, Path], tmp_path: Path
) -> None:
    """A screenshot of the whole page and a print are taken of what was loaded, without a frame between."""
    path = tmp_path / "report.html"
    report([shown["allocation"]] * pages, path, networks=[shown["network"]])
    page = browser.new_page()
    page.add_init_script(WATCH)
    page.goto(path.as_uri())
    page.wait_for_selector(DRAWN, state="attached", timeout=60_000)
    assert page.locator(".chart").count() > 12 or page.evaluate("atLoad") == 0
    assert page.evaluate("printed") == 0
    page.close()
