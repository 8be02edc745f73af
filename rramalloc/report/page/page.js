"use strict";
(() => {
  Bokeh.set_log_level("warn");
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
      row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
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

  const plotsOf = (view) => ("frame" in view ? [view] : (view.child_views ?? []).flatMap(plotsOf));

  function paint(models) {
    const style = getComputedStyle(root);
    const [ink, grid] = ["--ink", "--grid"].map((name) => style.getPropertyValue(name).trim());
    for (const model of models) {
      if (model.type.endsWith("Axis")) {
        model.setv({ axis_label_text_color: ink, major_label_text_color: ink, axis_line_color: grid, major_tick_line_color: grid });
      } else if (model.type === "Grid") {
        if (model.grid_line_color !== null) model.grid_line_color = grid;
      } else if (model.tags.includes("ink")) {
        model.line_color = ink;
      }
    }
  }

  const paintAll = () => {
    for (const { models } of charts.values()) paint(models);
  };

  async function draw(box) {
    const name = box.dataset.chart;
    const item = unpacked(JSON.parse(document.getElementById(`${name}-data`).textContent));
    const views = await Bokeh.embed.embed_item({ ...item, target_id: name });
    const plots = views.roots.flatMap(plotsOf);
    const models = plots[0].model.document.all_models;
    charts.set(box, { plots, models });
    paint(models);
    if (matchMedia("(pointer: coarse)").matches) {
      for (const plot of plots) plot.model.toolbar.active_drag = null;
    }
  }

  function rangesOf(box, axis) {
    return new Map(charts.get(box).plots.map(({ model }) => [model[`${axis}_range`], model[`${axis}_scale`]]));
  }

  function move(box, axis, change) {
    for (const [range, scale] of rangesOf(box, axis)) {
      const log = scale.type === "LogScale";
      const [start, end] = [range.start, range.end].map((value) => (log ? Math.log(value) : value));
      const moved = change(start, end).map((value) => (log ? Math.exp(value) : value));
      range.have_updated_interactively = true;
      range.setv({ start: moved[0], end: moved[1] });
    }
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
    reset: (box) => charts.get(box).plots.forEach((plot) => plot.reset()),
  };

  const keys = {
    "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down",
    "0": "reset", Home: "reset",
  };

  function act(box, action) {
    if (!charts.has(box)) return;
    actions[action](box);
    const { x_range: range } = charts.get(box).plots[0].model;
    const [low, high] = [range.start, range.end].map((value) => Number(value.toPrecision(4)).toLocaleString("en"));
    box.querySelector(":scope > [role=status]").textContent = `Showing ${low} to ${high}`;
  }

  function toggleKey(box, key) {
    if (!charts.has(box)) return;
    const shown = key.getAttribute("aria-pressed") !== "true";
    key.setAttribute("aria-pressed", String(shown));
    for (const model of charts.get(box).models) {
      if (model.tags.includes(`key-${key.dataset.key}`)) model.visible = shown;
    }
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
    paintAll();
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

  // Print: pictures of the charts as they are zoomed, in light colours.

  addEventListener("beforeprint", () => {
    const before = root.dataset.theme;
    root.dataset.theme = "light";
    paintAll();
    for (const [box, { plots }] of charts) {
      const place = box.querySelector(".plot").nextSibling;
      for (const plot of plots) {
        const picture = document.createElement("img");
        picture.className = "print";
        picture.alt = "";
        picture.src = plot.export("png", true).canvas.toDataURL();
        box.insertBefore(picture, place);
      }
    }
    if (before === undefined) delete root.dataset.theme;
    else root.dataset.theme = before;
  });
  addEventListener("afterprint", () => {
    for (const picture of document.querySelectorAll("img.print")) picture.remove();
    paintAll();
  });

  // Numbers and tables first, then one chart after the other.

  const pause = () => new Promise((ready) => requestAnimationFrame(() => setTimeout(ready)));
  (async () => {
    for (const box of boxes) {
      await pause();
      await draw(box);
    }
    root.dataset.drawn = String(boxes.length);
  })();
})();
