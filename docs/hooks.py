"""What the documentation site takes from the program itself when it is built (mkdocs hooks).

A line `<!-- formats -->`, `<!-- networks -->` or `<!-- presets -->` of a page becomes tables; results/,
CHANGELOG.md and CONTRIBUTING.md become pages; a site that would load anything from the network is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
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
Schema = Mapping[str, Any]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages from outside of docs/."""
    from mkdocs.structure.files import File

    outside = sorted(path for path in (ROOT / "results").rglob("*") if path.suffix in (".md", ".svg", ".csv"))
    for path in [*outside, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]:
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Tables in the place of their marks; links to pages outside of docs/ as the site has them."""
    for mark, table in TABLES.items():
        if f"<!-- {mark} -->" in markdown:
            markdown = markdown.replace(f"<!-- {mark} -->", table())
    return re.sub(r"\]\((?:\.\./(results/|CHANGELOG|CONTRIBUTING)|docs/)", r"](\1", markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site that needs the network."""
    from mkdocs.exceptions import PluginError

    for path in sorted(Path(config.site_dir).rglob("*.html")):
        found = LOADED.search(path.read_text(encoding="utf-8"))
        if found:
            raise PluginError(f"{path.relative_to(config.site_dir)} loads from the network: {found[0]}")


def formats() -> str:
    """One section for each file format: its fields, then those of the records in it."""
    from rramalloc.schemas import json_schema, schema_names

    return "\n".join(line for name in schema_names() for line in _format(name, json_schema(name)))


def networks() -> str:
    """The shipped networks with their sources."""
    from rramalloc.importers import load
    from rramalloc.network.shipped import shipped_names

    shipped = [load(name) for name in shipped_names()]
    rows = ([f"`{network.name}`", len(network.stages), network.source] for network in shipped)
    return "\n".join(_table(("name", "weight layers", "source"), rows))


def presets() -> str:
    """The shipped hardware with its sources, and what could not be confirmed."""
    from rramalloc.hardware.loader import load_hardware, preset_names

    rows = []
    for name in preset_names():
        hardware = load_hardware(name)
        array = f"{hardware.crossbar.wordlines} x {hardware.crossbar.bitlines}"
        unconfirmed = ", ".join(f"`{field}`" for field in hardware.unconfirmed)
        rows.append([f"`{name}`", array, hardware.crossbar.cell_bits, hardware.precision.weight_bits,
                     hardware.source, unconfirmed])  # fmt: skip
    return "\n".join(_table(("name", "array", "cell bits", "weight bits", "source", "not confirmed"), rows))


TABLES: Mapping[str, Callable[[], str]] = {"formats": formats, "networks": networks, "presets": presets}


def _format(name: str, schema: Schema) -> Iterator[str]:
    yield f"\n## `{name}` {{ #{name} }}\n"
    yield from _record(schema, name)
    for title, record in sorted(schema.get("$defs", {}).items()):
        yield f"\n### {title} {{ #{name}-{title.lower()} }}\n"
        yield from _record(record, name)


def _record(schema: Schema, name: str) -> Iterator[str]:
    if "description" in schema:
        yield _prose(schema["description"])
    fields = schema.get("properties")
    if fields is None:
        yield f"\n{_kind(schema, name)}\n"
        return
    required = schema.get("required", ())
    rows = (
        [f"`{field}`", _kind(inner, name), "yes" if field in required else _default(inner)]
        for field, inner in fields.items()
    )
    yield from ("", *_table(("field", "holds", "required"), rows))


def _default(schema: Schema) -> str:
    if schema.get("default") is None or "const" in schema:
        return "no"
    return f"no: `{json.dumps(schema['default'])}` if left out"


def _kind(schema: Schema, name: str) -> str:
    """What a value may be, in words; records by name, with a link to their table."""
    if "$ref" in schema:
        title = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{title}](#{name}-{title.lower()})"
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_kind(choice, name) for choice in schema[word]))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    if schema.get("type") == "array":
        return _list(schema, name)
    if "additionalProperties" in schema and isinstance(schema["additionalProperties"], Mapping):
        return f"object: name to {_kind(schema['additionalProperties'], name)}"
    return {"null": "null"}.get(schema.get("type", ""), schema.get("type", "anything") + _limits(schema))


def _list(schema: Schema, name: str) -> str:
    if "prefixItems" in schema:
        return "[" + ", ".join(_kind(item, name) for item in schema["prefixItems"]) + "]"
    least, most = schema.get("minItems"), schema.get("maxItems")
    count = f"{least} x " if least is not None and least == most else ""
    return f"list of {count}{_kind(schema.get('items', {}), name)}"


def _limits(schema: Schema) -> str:
    words = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
    shown = [f"{word} {_number(schema[key])}" for key, word in words.items() if key in schema]
    return f" {' '.join(shown)}" if shown else ""


def _number(value: float) -> str:
    """Large powers of two by name: 9007199254740992 says little."""
    for below in (0, 1):
        power = (int(value) + below).bit_length() - 1
        if power > 20 and value + below == 2**power:
            return f"2^{power}" + " - 1" * below
    return f"{value:g}"


def _table(heading: tuple[str, ...], rows: Any) -> Iterator[str]:
    yield f"| {' | '.join(heading)} |"
    yield f"|{'---|' * len(heading)}"
    for row in rows:
        yield "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |"


def _prose(text: str) -> str:
    """A docstring as Markdown: nothing in it is markup but its backquotes."""
    return re.sub(r"([*_<\[])", r"\\\1", text) if "`" not in text else text.replace("<", "&lt;")
