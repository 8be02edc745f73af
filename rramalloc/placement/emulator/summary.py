"""From a comparison to the record that tells it."""

from __future__ import annotations

from collections.abc import Sequence

from rramalloc.network.node import Conv, Linear
from rramalloc.placement.emulator.comparison import Comparison
from rramalloc.placement.emulator.task import Task
from rramalloc.placement.emulator.verification import (
    Difference,
    Verification,
    VerificationOptions,
    VerifiedLayer,
)
from rramalloc.records import brief
from rramalloc.results.allocation import NetworkId
from rramalloc.version import __version__


def summary(task: Task, comparison: Comparison, difference: Difference | None, images: int) -> Verification:
    """The verdict and what came of every layer."""
    emulator, layers = comparison.emulator, _layers(task, comparison)
    changed = any(layer.worst for layer in layers)
    converters = emulator.converters
    options = VerificationOptions(
        mapping=task.options.mapping, fc=task.options.fc, placed=task.placed, seed=comparison.seed,
        images=images,
        adc_bits=converters.adc_bits, noise=converters.noise,
        dac_bits=None if converters.adc_bits is None else converters.dac_bits,
    )  # fmt: skip
    return Verification(
        rramalloc_version=__version__,
        network=NetworkId.of(task.network),
        hardware=task.hardware.name,
        options=options,
        verdict="different" if difference is not None else "approximate" if changed else "equal",
        difference=difference,
        arrays=len(task.arrays),
        values=comparison.values,
        layers=layers,
        warnings=(*task.network.warnings, *_random_layers(layers)),
    )


def _layers(task: Task, comparison: Comparison) -> tuple[VerifiedLayer, ...]:
    emulator, reference, found = comparison.emulator, comparison.reference, list[VerifiedLayer]()
    used: dict[str, int] = {}
    for array in task.arrays:
        used[array.layer] = used.get(array.layer, 0) + 1
    for node in task.network.nodes:
        if isinstance(node, Conv | Linear) and node.name in comparison.tallies:
            tally = comparison.tallies[node.name]
            timed = node.name in emulator.schedule.stage
            found.append(
                VerifiedLayer(
                    name=node.name, computed="arrays" if timed else "host",
                    replication=emulator.schedule.copies(node.name) if timed else 0,
                    arrays=used.get(node.name, 0), weights=emulator.weights.source(node),
                    reference=reference.way(node), values=tally.values,
                    shift=comparison.shifts.get(node.name, 0), relative_error=tally.relative_error,
                    worst=tally.worst,
                )
            )  # fmt: skip
    return tuple(found)


def _random_layers(layers: Sequence[VerifiedLayer]) -> list[str]:
    """A file that gives some weights and not others."""
    drawn = [layer.name for layer in layers if layer.weights == "random"]
    if not drawn or len(drawn) == len(layers):
        return []
    return [f"{len(drawn)} layers, first {brief(drawn[0])}, have no weights in the file: they are random"]
