"""Section of a verification: whether the placed arrays compute what the network does, and the layers."""

from __future__ import annotations

from rramalloc.commands.verify.verification import Verification
from rramalloc.page.section import Detail, Fact, Section, network_words, table_of, warning_notes
from rramalloc.units import counted, share, steps

_COLUMNS = (
    "name", "computed", "copies", "arrays", "weights", "values", "shift", "relative_error", "worst",
)  # fmt: skip


def verification_section(result: Verification, detail: Detail) -> Section:
    """Verdict, what was compared, and the error of every layer."""
    options, layers = result.options, result.layers
    worst = max(layers, key=lambda layer: layer.relative_error, default=None)
    limit = "" if result.difference is None else str(result.difference)
    if not limit and worst is not None and worst.relative_error:
        limit = f"{worst.name} differs most, its sums by {share(worst.relative_error)}"
    unit = "step" if result.tick_ns is None else "tick"
    return Section(
        title=f"{result.network.name}: {result.verdict}",
        subtitle=f"Verification · {result.hardware}",
        facts=(
            Fact("Verdict", result.verdict, "against the reference, value by value"),
            Fact("Values", f"{result.values:,}", f"of {counted(options.images, 'input')}"),
            Fact("Arrays", f"{result.arrays:,}", f"placed {options.placed}"),
            Fact("Makespan", steps(result.makespan, unit), "every window read when its inputs were there"),
        ),
        blocks=(
            *warning_notes(result.warnings),
            *((table_of("Layers", layers, _COLUMNS, detail, folded=False),) if layers else ()),
        ),
        limit=limit,
        headline=result.verdict,
        made=(
            ("Network", network_words(result.network)),
            ("Mapping", f"{options.mapping}; classifiers on the {options.fc}"),
            ("Converters, noise", f"{options.adc_bits or 'enough'} bits; deviation {options.noise:g}"),
            ("Seed", str(options.seed)),
            ("rramalloc", result.rramalloc_version),
        ),
    )
