"""What the documentation site takes from the program itself when it is built (mkdocs hooks).

A line such as `<!-- formats -->` or `<!-- methods -->` of a page becomes tables; file formats, results/,
the notebooks, CHANGELOG.md and CONTRIBUTING.md become pages; a site that needs the network is an error.
"""

from __future__ import annotations

import fnmatch
import html
import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\ssrc=[\"']?(?:https?:)?//[^>]*>"
    r"|<link\b[^>]*rel=[\"']?(?:stylesheet|preload|preconnect|icon)[^>]*(?:https?:)?//[^>]*>"
)
"""A tag that makes a browser fetch something from another host."""
_CLAUSE = re.compile(r"(?:^|(?<=[.;] ))([a-z][\w*]*(?:, [a-z][\w*]*)*): ")
"""Names of fields in front of what they mean."""
_FOR_CALLERS = re.compile(
    r"\n\n(?:Raises|References)\n-+\n.*?(?=\n\n|\Z)|(?<=[.;])\s+(?:Raises|Source:) .*?(?=\n\n|\Z)", re.DOTALL
)
"""What a docstring tells who calls the record from Python."""
Schema = Mapping[str, Any]
COMMON: Mapping[str, str] = {
    "adc_mw": "power of one ADC",
    "adc_pj": "energy of conversions; of one, where it is a value of the hardware",
    "adc_um2": "area of one ADC",
    "area_um2": "area of the arrays and tiles in use; of one array, where it is a value of the hardware",
    "array_pj": "energy of reads of arrays",
    "chip_area_um2": "area of the whole chip",
    "columns_used": "bitlines in use of all arrays that a full batch reads",
    "digital_pj": "energy of the layers on digital units",
    "dynamic_pj": "energy of reads and of moved bytes",
    "edp": "energy times latency in pJ ns",
    "energy_pj": "energy for one input",
    "kind": "kind of the arrays, where the hardware has several",
    "leakage_pj": "energy of what leaks, as static_pj",
    "moved_pj": "energy of bytes that move between tiles",
    "row_pj": "energy of driving wordlines; of one once, where it is a value of the hardware",
    "rows_used": "wordlines in use of all arrays that a full batch reads",
    "copies_divide": "of what copies had to be divisors",
    "latency_table": "measured step times, null if those of the hardware hold",
    "not_counted": "what latency and throughput leave out although it takes time",
    "tick_ns": "length of a tick where stages have their own clocks",
    "feeds_back": "whether the next input needs this one's output",
    "sequences": "that take turns where the next input of each needs this one's output",
    "states": "the layer that reads, for the next input, what a stage writes, by the stage",
    "stream_energy_pj": "energy of an input where inputs come at the interval, or at the rate that is given",
    "stream_power_mw": "power where inputs come at the interval, or at the rate that is given",
    "tops": "2 * multiply-accumulates on arrays * inputs a second / 1e12",
    "tops_per_w": "2 * multiply-accumulates on arrays / energy of an input in the stream in pJ",
    "placed": "whether transfers between tiles count",
    "set_values": "values of the hardware that the call replaced",
    "static_pj": "energy of what leaks",
    "a_ns_per_byte": "time for each byte read",
    "adc_bits": "bits of the converter",
    "allow_partial": "whether operators that cannot be modelled are left out, by name",
    "align": "to what folding aligns",
    "approximations": "nodes that stand for an operator only approximately, and how",
    "arrays": "crossbar arrays",
    "arrays_asked": "budget as the sweep asks for it",
    "arrays_per_tile": "arrays that a tile holds",
    "at_most": "limits of other quantities",
    "b_ns_per_byte": "time for each byte written",
    "bits": "file of the bits that layers choose from",
    "bits_layers": "file with the sizes of the layers of a policy of bits",
    "mixes_images": "whether every pixel needs all images, not its own alone",
    "order": "of the pixels that are cut into another grid",
    "sensitivity": "limit of the sum of sensitivities to the bits that are chosen",
    "target": "latency in steps that the fewest arrays reach",
    "bandwidth_between": "bandwidth between chiplets",
    "bandwidth_chip_gb_s": "bandwidth of a link between chips",
    "bandwidth_gb_s": "bandwidth",
    "bandwidth_inside": "bandwidth within a chiplet",
    "bandwidth_out_gb_s": "bandwidth of the way out",
    "bandwidth_tile_gb_s": "bandwidth of a link between tiles",
    "baselines": "points of other methods",
    "batches": "steps in which the layer computes",
    "block": "windows (height, width) that a copy computes in a step, with mapping `sdk`",
    "budget": "arrays allowed",
    "buffer_bytes": "bytes that wait at the fullest moment",
    "buffer_pixels": "pixels that wait at the fullest moment",
    "byte_hops": "bytes times hops",
    "bytes": "bytes that move",
    "c_ns": "time of a run apart from its bytes",
    "ceil_mode": "whether a last window may be cut at the border",
    "approximated": "nodes that stand for an operator only approximately",
    "barriers": "nodes that wait for all pixels of their inputs",
    "cell_bits": "bits of a cell",
    "classifiers": "how the target counts classifiers",
    "channels": "channels that it passes on",
    "chip": "tiles and links, or the chip's row and column",
    "chiplets": "number of chiplets",
    "column": "column of a pixel",
    "communication": "time of moving data",
    "compute": "time of computing",
    "compute_units": "units that compute",
    "consumer": "layer that reads it",
    "critical_path": "segments that the makespan waits for",
    "critical_path_text": "the critical path in words",
    "macs": "multiply-accumulates",
    "precomputed": "layers that work on constants alone",
    "unmodelled": "operators with weights that no node stands for",
    "write": "how long it takes to write weights, for networks larger than the chip",
    "counting": "how a target counts arrays, where it is not the plain way",
    "coverage": "how much of the network the result is about",
    "crossbar": "size of one array",
    "cycles": "ticks that a batch lasts, where stages have clocks of their own",
    "arrays_per_copy": "arrays of one copy",
    "device": "device that was measured",
    "difference": "largest difference from the reference",
    "digital": "time of a pixel of digital nodes by operator, null: they take none",
    "dilation": "distance of the kernel's positions in rows and columns",
    "done": "points that are computed",
    "left_s": "seconds that remain, as far as they can be foretold",
    "edges": "what flows from one node to another",
    "end": "where a link ends",
    "energy": "energy and area of an array",
    "exact": "exact value",
    "expected": "value of the reference",
    "fc": "where linear layers on a 1 x 1 grid run",
    "filter": "filter after folding",
    "filter_before": "filter before folding",
    "finish": "step after the last",
    "flags": "flags of the row",
    "fold": "whether filters are folded, or by how many pixels",
    "folded_input": "height, width and channels of the input as it is folded",
    "format": "which format and version the file has",
    "from": "where it begins",
    "gap": "(value - lower bound) / value",
    "got": "value of the emulated accelerator",
    "groups": "groups of channels, or of operators that run together",
    "handoff": "whether a pixel can be used in the next or in the same step",
    "hardware": "the hardware, complete",
    "hop_cycles_between": "cycles of a hop between chiplets",
    "hop_cycles_inside": "cycles of a hop within a chiplet",
    "hop_ns_chip": "time of a hop between chips",
    "hop_ns_tile": "time of a hop between neighbouring tiles",
    "hops": "mean number of hops",
    "host": "layers left to the host",
    "image": "number of the image",
    "images": "number of images",
    "input_bits": "bits of an input value",
    "inputs": "names of the nodes that it reads",
    "interval": "steps between inputs that follow each other",
    "kernel": "rows and columns of the kernel",
    "latency_ns": "time for one input",
    "layer": "name of the layer",
    "layers": "one row a layer, in network order",
    "lower_bound": "what no allocation within the budget falls below",
    "makespan": "steps until one input is done",
    "mapping": "how the weights of a layer lie on arrays",
    "mappings": "mappings of the grid",
    "memory": "bandwidth of the memory",
    "method": "method that made the allocation",
    "methods": "methods to compare or run",
    "minimum": "arrays with every layer stored once",
    "modes": "fastest modes for its arrays",
    "n_h": "rows folded into one",
    "n_w": "columns folded into one",
    "name": "name, by which other parts of the file refer to it",
    "network": "name and hash of the network",
    "networks": "networks of the grid",
    "nodes": "the nodes of the graph, in any order",
    "noise": "standard deviation of the noise",
    "normal_op": "NormalOp of the tight recurrence in steps",
    "objective": "what is made small",
    "objective_unit": "unit of the objective's value and bound",
    "objective_value": "value of the objective",
    "objectives": "objectives of the grid",
    "op": "operator",
    "on_arrays": "weights or multiply-accumulates on arrays",
    "operator": "operator as the source file names it",
    "operators": "operators by name",
    "options": "what was asked for",
    "out_channels": "output channels",
    "out_features": "output features",
    "output_bits": "bits of an output value",
    "overlap": "whether filters overlap",
    "padding_added": "rows and columns of padding that folding adds",
    "pads": "padding at the top, left, bottom and right",
    "pairs": "bandwidth of single pairs of chiplets",
    "parameters": "parameters of the model",
    "points": "non-dominated points, or the number of points of the grid",
    "pre_op": "PreOp of the tight recurrence in steps",
    "precision": "bits of weights, inputs and outputs",
    "producer": "layer whose output it is",
    "proof": "what shows the lower bound",
    "reason": "why it was left out",
    "reduce_to": "where partial sums are added",
    "copies": "how often the layer's weights are stored",
    "routing": "time of hops",
    "row": "row of a pixel",
    "row_blocks": "how the target counts the blocks of wordlines",
    "rows": "one row a result",
    "rramalloc_version": "version that wrote the file",
    "rule": "rule of folding",
    "saving": "share of the arrays that folding saves",
    "scale": "factor of rows and columns",
    "work_s": "work in seconds of a reference core",
    "seed": "seed of every random choice",
    "seeds": "number of seeds",
    "sha256": "hash of the network's graph, or of a file's bytes",
    "shape": "channels, height, width",
    "share": "share of the whole",
    "shared": "weights that several layers use are stored for each of them",
    "shares": "weight layer whose weights this one uses",
    "size_bytes": "bytes that move",
    "source": "where the numbers or the graph come from; of an edge, where it begins",
    "spec": "the sweep as it was asked for",
    "stage": "name of the stage",
    "stall_steps": "steps between start and finish in which it waits",
    "start": "first step, or where a link begins",
    "status": "optimal, bounded (a gap is left) or feasible (there is no bound)",
    "stopped": "why the search ended: proof, gap, exhausted, work, time or interrupted",
    "step_ns": "length of one step",
    "storage": "units that store",
    "storage_units": "units that store",
    "strategies": "one row a strategy",
    "stride": "step of the window in rows and columns",
    "stride_before": "stride before folding",
    "tail": "Tail of the tight recurrence in steps",
    "target_interval": "target of the interval in steps or ticks",
    "target_interval_ns": "target of the interval",
    "target_ns": "target of the latency",
    "target_steps": "target in steps",
    "target_throughput": "target of the throughput in inputs a second",
    "tasks": "tasks that are placed together",
    "throughput_per_s": "inputs a second when inputs stream",
    "tile": "row and column of the tile",
    "time_limit_s": "limit of time, null for none",
    "time_ns": "time of one run",
    "timing": "how long a step takes",
    "to": "where it ends",
    "total": "the whole cost",
    "total_ns": "sum of the times of all layers",
    "traffic": "bytes times hops for one input",
    "treatment": "how the operator is modelled",
    "unit_bytes": "bytes that a unit holds",
    "units": "units of a chip or of a chiplet",
    "used": "arrays used",
    "utilisation": "share of the cells of its arrays that hold weights",
    "by_kind": "arrays of every kind by name; absent with one kind",
    "area_bound_um2": "least area with which it is possible, where kinds are counted by area",
    "value": "value of the objective",
    "waits_for": "stage whose pixel the segment waits for",
    "warnings": "what was assumed, approximated or ignored",
    "weight_bits": "bits of a weight",
    "dynamic_macs": "multiply-accumulates of products of two computed tensors in this node",
    "windows": "output pixels of the layer",
    "work": "limit of work, in units that do not depend on the machine",
}
"""What a field means in every record that does not say it itself."""


def on_config(config: MkDocsConfig) -> None:
    """Add every page of results/ to its section of the navigation, by its title."""
    (pages,) = (section["Results"] for section in config.nav or () if "Results" in section)
    for path in sorted((ROOT / "results").glob("*.md")):
        if path.name != "README.md":
            title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
            pages.append({title: f"results/{path.name}"})


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages from outside of docs/."""
    from mkdocs.structure.files import File

    outside = sorted(path for path in (ROOT / "results").rglob("*") if path.suffix in (".md", ".svg", ".csv"))
    for path in [*outside, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]:
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        page = notebook_page(json.loads(path.read_text(encoding="utf-8")))
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page))
    for name, page in format_pages().items():
        files.append(File.generated(config, f"formats/{name}.md", content=page))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Tables in the place of their marks; links to notebooks and other folders as the site has them."""
    for mark, table in TABLES.items():
        if f"<!-- {mark} -->" in markdown:
            markdown = markdown.replace(f"<!-- {mark} -->", table())
    markdown = markdown.replace(".ipynb)", ".md)")
    return re.sub(r"\]\(((?:\.\./)*)(?:\.\./(results/|CHANGELOG|CONTRIBUTING)|docs/)", r"](\1\2", markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site that needs the network."""
    from mkdocs.exceptions import PluginError

    for path in sorted(Path(config.site_dir).rglob("*.html")):
        found = LOADED.search(path.read_text(encoding="utf-8"))
        if found:
            raise PluginError(f"{path.relative_to(config.site_dir)} loads from the network: {found[0]}")


def notebook_page(notebook: Mapping[str, Any]) -> str:
    """Return a notebook as Markdown: its texts, its code, and below each cell what it printed and showed."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [f'<div class="output">\n{_output(output)}\n</div>' for output in cell["outputs"]]
    return "\n\n".join(parts) + "\n"


def _output(output: Mapping[str, Any]) -> str:
    """Return the output of a cell as HTML without empty lines, which would end an element in Markdown."""
    data = output.get("data", {"text/plain": output.get("text", output.get("traceback", ()))})
    for kind in ("image/svg+xml", "text/html", "image/png", "text/plain"):
        if kind in data:
            shown = "".join(data[kind])
            if kind == "image/png":
                return f'<img alt="" src="data:image/png;base64,{shown.strip()}">'
            if kind == "text/plain":
                shown = f"<pre><code>{html.escape(shown)}</code></pre>"
            return re.sub(r"\n\s*\n", "\n", shown)
    return ""


def formats() -> str:
    """Return a table of the file formats, each with a link to its page."""
    from rramalloc.schemas import json_schema, schema_names

    rows = []
    for name in schema_names():
        text = " ".join(json_schema(name).get("description", "").split())
        rows.append([f"[`{name}`](formats/{name}.md)", _prose(text.partition(". ")[0].rstrip("."))])
    return "\n".join(_table(("format", "holds"), rows))


def format_pages() -> dict[str, str]:
    """Return a page for each file format: its fields, then those of its records.

    A record that several formats share stands on the page of the first.
    """
    from rramalloc.schemas import json_schema, schema_names

    homes: dict[str, tuple[str, Schema]] = {}
    return {name: "\n".join(_format(name, json_schema(name), homes)) for name in schema_names()}


def networks() -> str:
    """Return the shipped networks with their sources."""
    from rramalloc.importers.shipped import shipped_networks

    rows = (
        [f"`{row.name}`", row.weight_layers, f"{row.weights:,}", f"{row.macs:,}", row.source]
        for row in shipped_networks()
    )
    return "\n".join(_table(("name", "weight layers", "weights", "MACs", "source"), rows))


def presets() -> str:
    """Return the shipped hardware with its sources and its unconfirmed values."""
    from rramalloc.hardware.loader import load_hardware, preset_names

    rows = []
    for name in preset_names():
        hardware = load_hardware(name)
        array = f"{hardware.crossbar.wordlines} x {hardware.crossbar.bitlines}"
        unconfirmed = ", ".join(f"`{field}`" for field in hardware.unconfirmed)
        rows.append([f"`{name}`", array, hardware.crossbar.cell_bits, hardware.precision.weight_bits,
                     hardware.source, unconfirmed])  # fmt: skip
    return "\n".join(_table(("name", "array", "cell bits", "weight bits", "source", "not confirmed"), rows))


def methods() -> str:
    """Every method with what it minimises and proves, and where it is from."""
    from rramalloc.methods.one_pass import ONE_PASS
    from rramalloc.methods.registry import METHODS, method_named

    every = [method_named(name) for name in METHODS]
    rows = (
        [f"[`{m.name}`](#{m.name})", "yes" if m.name in ONE_PASS else "", m.minimises, m.proves, m.source]
        for m in every
    )
    return "\n".join(_table(("`--method`", "one pass", "minimises", "proves", "source"), rows))


def baselines() -> str:
    """Return a section with its module's description for every method that the page does not describe."""
    from rramalloc.methods.registry import METHODS

    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    options = "    options: {members: false, show_root_heading: false, show_root_toc_entry: false}"
    sections = (
        f"### `{name}`\n\n::: {home.partition(':')[0]}\n{options}\n"
        for name, home in METHODS.items()
        if f"### `{name}`\n" not in page
    )
    return "\n".join(sections)


def calls() -> str:
    """Return a section with the calls and results of every command that has some."""
    from rramalloc.room import rooms

    sections = (
        "\n".join(
            [f"## {room.title}\n", *(f"::: {room.full(call).replace(':', '.')}" for call in room.calls)]
        )
        for room in rooms().values()
        if room.calls
    )
    return "\n\n".join(sections)


TABLES: Mapping[str, Callable[[], str]] = {
    "baselines": baselines,
    "calls": calls,
    "formats": formats,
    "methods": methods,
    "networks": networks,
    "presets": presets,
}


def _format(name: str, schema: Schema, homes: dict[str, tuple[str, Schema]]) -> Iterator[str]:
    """Write a page; homes: pages and contents of the records so far, by title."""
    records = schema.get("$defs", {})
    homes[schema["title"]] = (name, {key: schema[key] for key in schema if key not in ("$defs", "$schema")})
    here = []
    for title, record in sorted(records.items()):
        if homes.setdefault(title, (name, record))[1] != record:
            homes[title] = (name, record)  # the same title for other fields: links below lead to this page
        if homes[title][0] == name:
            here.append(title)
    pages = {title: "" if homes[title][0] == name else f"{homes[title][0]}.md" for title in records}
    yield f"# `{name}` {{ #{schema['title'].lower()} }}\n"
    yield from _record(schema, pages)
    for title in here:
        yield f"\n## {title} {{ #{title.lower()} }}\n"
        yield from _record(records[title], pages)


def _record(schema: Schema, pages: Mapping[str, str]) -> Iterator[str]:
    fields = schema.get("properties")
    told = re.sub(r"\bNone\b", "null", _FOR_CALLERS.sub("", schema.get("description", "")))
    text, meaning = meanings(told, fields or ())
    if text:
        yield _prose(text)
    if fields is None:
        yield f"\n{_kind(schema, pages)}\n"
        return
    required = schema.get("required", ())
    rows = (
        [
            f"`{field}`",
            _kind(inner, pages),
            "yes" if field in required else _default(inner),
            _prose(inner.get("description", meaning.get(field, COMMON.get(field, "")))),
        ]
        for field, inner in fields.items()
    )
    yield from ("", *_table(("field", "holds", "required", "meaning"), rows))


def meanings(description: str, fields: Container[str]) -> tuple[str, dict[str, str]]:
    """Return the text of a record's docstring, and its words about each field.

    Fields stand in a section Parameters, or as "name: words" up to a semicolon; "hop_*" stands for several.
    """
    description, _, section = description.partition("\nParameters\n----------\n")
    section, _, behind = section.partition("\n\n")
    parts = re.split(r"^([a-z]\w*(?:, [a-z]\w*)*)$", section, flags=re.MULTILINE)
    found: dict[str, str] = {}
    for names, words in zip(parts[1::2], parts[2::2], strict=True):
        found |= dict.fromkeys(names.split(", "), " ".join(words.split()).rstrip("."))
    description = f"{description}\n\n{behind}"
    rest = []
    for paragraph in re.split(r"\n\s*\n", description.strip()):
        clauses = _CLAUSE.split(" ".join(paragraph.split()))
        if len(clauses) > 1 and all(_named(name, fields) for name in clauses[1].split(", ")):
            for names, words in zip(clauses[1::2], clauses[2::2], strict=True):
                for name in names.split(", "):
                    found |= dict.fromkeys(_named(name, fields), words.strip().rstrip(";."))
            paragraph = clauses[0].strip()
        if paragraph:
            rest.append(paragraph)
    return "\n\n".join(rest), {name: words for name, words in found.items() if name in fields}


def _named(name: str, fields: Container[str]) -> list[str]:
    """Return the fields that a name in a docstring stands for."""
    if "*" in name and isinstance(fields, Iterable):
        return fnmatch.filter(fields, name)
    return [name] if name in fields else []


def _default(schema: Schema) -> str:
    if schema.get("default") is None or "const" in schema:
        return "no"
    return f"no: `{json.dumps(schema['default'])}` if left out"


def _kind(schema: Schema, pages: Mapping[str, str]) -> str:
    """Return what a value may be; a record by name, with a link to its table; pages: where each is."""
    if "$ref" in schema:
        title = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{title}]({pages[title]}#{title.lower()})"
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_kind(choice, pages) for choice in schema[word]))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    if schema.get("type") == "array":
        return _list(schema, pages)
    if "additionalProperties" in schema and isinstance(schema["additionalProperties"], Mapping):
        return f"object: name to {_kind(schema['additionalProperties'], pages)}"
    return {"null": "null"}.get(schema.get("type", ""), schema.get("type", "anything") + _limits(schema))


def _list(schema: Schema, pages: Mapping[str, str]) -> str:
    if "prefixItems" in schema:
        return "[" + ", ".join(_kind(item, pages) for item in schema["prefixItems"]) + "]"
    least, most = schema.get("minItems"), schema.get("maxItems")
    count = f"{least} x " if least is not None and least == most else ""
    return f"list of {count}{_kind(schema.get('items', {}), pages)}"


def _limits(schema: Schema) -> str:
    words = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
    shown = [f"{word} {_number(schema[key])}" for key, word in words.items() if key in schema]
    return f" {' '.join(shown)}" if shown else ""


def _number(value: float) -> str:
    """Large powers of two by name: 9007199254740992 says little."""
    for below in (0, 1):
        power = (int(value) + below).bit_length() - 1
        if power >= 20 and value + below == 2**power:
            return f"2^{power}" + " - 1" * below
    return f"{value:g}"


def _table(heading: tuple[str, ...], rows: Any) -> Iterator[str]:
    yield f"| {' | '.join(heading)} |"
    yield f"|{'---|' * len(heading)}"
    for row in rows:
        yield "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |"


def _prose(text: str) -> str:
    """Return a docstring as Markdown: nothing in it is markup but its backquotes."""
    return re.sub(r"([*_<\[])", r"\\\1", text) if "`" not in text else text.replace("<", "&lt;")
