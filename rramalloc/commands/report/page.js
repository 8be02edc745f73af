"use strict";
(() => {
  const root = document.documentElement;
  const charts = new Map();

  // Tables

  const valueOf = (cell) => {
    const exact = cell.dataset.v;
    return exact !== undefined ? exact : cell.classList.contains("n") ? cell.textContent.replaceAll(",", "") : cell.textContent;
  };

  const compare = (numeric) => (one, two) => {
    if (!numeric) return one.localeCompare(two, "en", { numeric: true });
    const [a, b] = [one, two].map((text) => (text === "" ? -Infinity : Number(text)));
    return a < b ? -1 : a > b ? 1 : 0;
  };

  function sort(table, head) {
    const place = [...head.parentNode.children].indexOf(head);
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const order = compare(head.classList.contains("n"));
    const rows = [...table.tBodies[0].rows].map((row) => [valueOf(row.cells[place]), row]);
    rows.sort(([one], [two]) => (up ? order(one, two) : order(two, one)));
    table.tBodies[0].append(...rows.map(([, row]) => row));
  }

  function filter(table, text, count) {
    const wanted = text.trim().toLowerCase();
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = wanted !== "" && ![...row.cells].map(valueOf).join(" ").toLowerCase().includes(wanted);
      shown += row.hidden ? 0 : 1;
    }
    const all = table.tBodies[0].rows.length;
    const rows = `${all.toLocaleString("en")} row${all === 1 ? "" : "s"}`;
    count.textContent = wanted === "" ? rows : `${shown.toLocaleString("en")} of ${rows}`;
  }

  function download(table, name) {
    const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
    const lines = [heads, ...rows.map((row) => [...row.cells].map(valueOf))];
    const text = lines.map((line) => line.map(quoted).join(",")).join("\n") + "\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  for (const box of document.querySelectorAll(".scroll")) {
    const tell = () => box.classList.toggle("goes-on", box.scrollTop + box.clientHeight < box.scrollHeight - 1);
    box.addEventListener("scroll", tell, { passive: true });
    new ResizeObserver(tell).observe(box.firstElementChild);
  }

  for (const box of document.querySelectorAll(".table")) {
    const table = box.querySelector("table");
    for (const head of table.tHead.rows[0].cells) {
      head.firstElementChild.addEventListener("click", () => sort(table, head));
    }
    const count = box.querySelector(".count");
    box.querySelector("input").addEventListener("input", (event) => filter(table, event.target.value, count));
    const button = box.querySelector(".csv");
    button.addEventListener("click", () => download(table, button.dataset.file));
  }

  // Charts

  const unpacked = (value) => {
    if (Array.isArray(value)) return value.map(unpacked);
    if (value === null || typeof value !== "object") return value;
    if (Array.isArray(value.texts) && Array.isArray(value.at)) return value.at.map((place) => value.texts[place]);
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, unpacked(each)]));
  };

  const rowsOf = (columns) => {
    const entries = Object.entries(columns);
    return (entries[0]?.[1] ?? []).map((_, row) => Object.fromEntries(entries.map(([name, values]) => [name, values[row]])));
  };

  const options = { mode: "vega-lite", actions: false, renderer: "svg", ast: true, tooltip: { theme: "custom" } };

  async function draw(box) {
    const place = box.querySelector(".plot");
    const specs = unpacked(JSON.parse(document.getElementById(`${box.dataset.chart}-data`).textContent));
    const views = [];
    for (const spec of specs) {
      for (const layer of spec.layer) layer.data = { values: rowsOf(layer.data.columns) };
      const panel = document.createElement("div");
      panel.className = "panel";
      place.append(panel);
      views.push((await vegaEmbed(panel, spec, options)).view);
      if (box.dataset.zoom !== "") watch(box, panel, views.at(-1));
    }
    const ends = Object.fromEntries([...box.dataset.zoom].map((axis) => [axis, rangeOf(views[0], axis)]));
    charts.set(box, { views, ends });
  }

  const rangeOf = (view, axis) => [view.signal(`${axis}_low`), view.signal(`${axis}_high`)];

  function setRange(box, axis, [low, high]) {
    for (const view of charts.get(box).views) view.signal(`${axis}_low`, low).signal(`${axis}_high`, high).runAsync();
  }

  const isLog = (view, axis) => view.scale(axis).type === "log";

  function move(box, axis, change) {
    const { views } = charts.get(box);
    const log = isLog(views[0], axis);
    const [low, high] = rangeOf(views[0], axis).map((value) => (log ? Math.log(value) : value));
    setRange(box, axis, change(low, high).map((value) => (log ? Math.exp(value) : value)));
  }

  // Dragging over a panel zooms to what was dragged over; the wheel zooms with Ctrl.

  function watch(box, panel, view) {
    const fine = matchMedia("(pointer: fine)");
    const frame = document.createElement("div");
    frame.className = "drag";
    let start = null;
    const at = (event) => {
      const svg = panel.querySelector("svg").getBoundingClientRect();
      const [left, top] = view.origin();
      const [x, y] = [event.clientX - svg.left - left, event.clientY - svg.top - top];
      return [Math.min(Math.max(x, 0), view.width()), Math.min(Math.max(y, 0), view.height())];
    };
    const both = box.dataset.zoom === "xy";
    panel.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !fine.matches) return;
      start = at(event);
      panel.append(frame);
      panel.setPointerCapture(event.pointerId);
    });
    panel.addEventListener("pointermove", (event) => {
      if (start === null) return;
      const [x, y] = at(event);
      const [left, top] = view.origin();
      const low = both ? Math.min(start[1], y) : 0;
      const height = both ? Math.abs(y - start[1]) : view.height();
      Object.assign(frame.style, {
        left: `${left + Math.min(start[0], x)}px`, top: `${top + low}px`,
        width: `${Math.abs(x - start[0])}px`, height: `${height}px`,
      });
    });
    panel.addEventListener("pointerup", (event) => {
      if (start === null) return;
      const end = at(event);
      for (const [place, axis] of [...box.dataset.zoom].entries()) {
        if (Math.abs(end[place] - start[place]) < 5) continue;
        const ends = [start[place], end[place]].map((pixel) => view.scale(axis).invert(pixel));
        setRange(box, axis, ends.sort((one, two) => one - two));
      }
      start = null;
      frame.remove();
      frame.removeAttribute("style");
    });
    panel.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      act(box, event.deltaY < 0 ? "in" : "out");
    }, { passive: false });
  }

  const zoomed = (factor) => (start, end) => {
    const middle = (start + end) / 2;
    const half = ((end - start) / 2) * factor;
    return [middle - half, middle + half];
  };

  const shifted = (part) => (start, end) => {
    const by = (end - start) * part;
    return [start + by, end + by];
  };

  const actions = {
    in: (box) => [...box.dataset.zoom].forEach((axis) => move(box, axis, zoomed(0.6))),
    out: (box) => [...box.dataset.zoom].forEach((axis) => move(box, axis, zoomed(1 / 0.6))),
    left: (box) => move(box, "x", shifted(-0.25)),
    right: (box) => move(box, "x", shifted(0.25)),
    up: (box) => move(box, "y", shifted(0.25)),
    down: (box) => move(box, "y", shifted(-0.25)),
    reset: (box) => Object.entries(charts.get(box).ends).forEach(([axis, ends]) => setRange(box, axis, ends)),
  };

  const keys = {
    "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down",
    "0": "reset", Home: "reset",
  };

  function act(box, action) {
    if (!charts.has(box) || box.dataset.zoom === "") return;
    actions[action](box);
    const [low, high] = rangeOf(charts.get(box).views[0], "x").map((value) => Number(value.toPrecision(4)).toLocaleString("en"));
    box.querySelector(":scope > [role=status]").textContent = `Showing ${low} to ${high}`;
  }

  function toggleKey(box, key) {
    if (!charts.has(box)) return;
    const shown = key.getAttribute("aria-pressed") !== "true";
    key.setAttribute("aria-pressed", String(shown));
    for (const view of charts.get(box).views) view.signal(`key_${key.dataset.key}`, shown).runAsync();
  }

  const boxes = [...document.querySelectorAll(".chart")];
  for (const box of boxes) {
    for (const button of box.querySelectorAll("[data-do]")) {
      button.addEventListener("click", () => act(box, button.dataset.do));
    }
    for (const key of box.querySelectorAll("[data-key]")) {
      key.addEventListener("click", () => toggleKey(box, key));
    }
    box.querySelector(".plot").addEventListener("keydown", (event) => {
      const action = keys[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      if ((action === "up" || action === "down") && !box.dataset.zoom.includes("y")) return;
      event.preventDefault();
      act(box, action);
    });
  }

  // Theme

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const toggle = document.getElementById("theme");
  const stored = (() => {
    try {
      return localStorage.getItem("rramalloc-theme");
    } catch {
      return null;
    }
  })();
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);

  function themed() {
    toggle.textContent = isDark() ? "Light" : "Dark";
    toggle.setAttribute("aria-pressed", String(isDark()));
    toggle.setAttribute("aria-label", `${isDark() ? "Light" : "Dark"} colours`);
  }

  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("rramalloc-theme", root.dataset.theme);
    } catch {
      // A browser that keeps nothing for files still shows the page.
    }
    themed();
  });
  dark.addEventListener("change", themed);
  themed();

  // What has loaded is whole, for a long screenshot and for a print: a chart needs no task but this one. Of a page of many charts
  // the first are drawn so, the others one after the other with room between them, or all when the page is printed.

  const atOnce = 12;
  const rest = [...boxes];
  const pause = () => new Promise((ready) => setTimeout(ready));

  async function drawRest(pausing) {
    for (let box = rest.shift(); box !== undefined; box = rest.shift()) {
      await draw(box);
      if (pausing && boxes.length - rest.length >= atOnce) await pause();
    }
  }

  addEventListener("beforeprint", () => drawRest(false));
  drawRest(true).then(() => {
    root.dataset.drawn = String(boxes.length);
    globalThis.rramallocCharts = boxes.map((box) => charts.get(box).views);
  });
})();
