"""Every tool that an allocation can be exported to, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rramalloc.errors import UnsupportedError
from rramalloc.export import csv_table, json_document, mnsim, neurosim, pimcomp, pimsyn
from rramalloc.export.bundle import Bundle, Export
from rramalloc.export.subject import Subject
from rramalloc.records import check_known
from rramalloc.results.allocation import NetworkId

Target = Callable[[Subject], Bundle]
TARGETS: Mapping[str, Target] = {
    "pimcomp": pimcomp.export,
    "pimsyn": pimsyn.export,
    "mnsim": mnsim.export,
    "neurosim": neurosim.export,
    "csv": csv_table.export,
    "json": json_document.export,
}
_TAKE_PLACEMENTS = ("csv", "json")


def export_to(subject: Subject, target: str) -> Export:
    """The files of one target. Raises UnknownNameError, UnsupportedError for what it cannot express."""
    check_known("export target", target, tuple(TARGETS))
    if subject.placement is not None and target not in _TAKE_PLACEMENTS:
        raise UnsupportedError(
            "placement", f"{target} places arrays itself; leave --placement out, or use --to csv or json"
        )
    files, remarks = TARGETS[target](subject)
    network = NetworkId.of(subject.network)
    return Export(target=target, network=network, files=files, remarks=remarks)
