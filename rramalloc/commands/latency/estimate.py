"""`latency estimate`: the time of a whole network as the sum of its layers, and the error of that sum."""

from __future__ import annotations

from typing import Literal

from rramalloc.allocation.allocation import NetworkId
from rramalloc.importers import NetworkLike, as_network
from rramalloc.network.node import Name, Stage
from rramalloc.records import Record
from rramalloc.result import AnswerRecord
from rramalloc.timing.latency_table import Flag, LatencyTableLike, as_latency_table
from rramalloc.timing.measured_layer import MeasuredLayer, timed_nodes
from rramalloc.units import counted, rounded


class EstimatedLayer(Record):
    """A node and its latency; None if the table does not have it."""

    name: Name
    operator: str
    latency_ns: float | None
    share: float
    flags: tuple[Flag, ...] = ()

    @property
    def flag_text(self) -> str:
        """The flags in one line."""
        return " ".join(self.flags)


class LatencyEstimate(AnswerRecord):
    """Sum of latencies over a network. share: of a layer in the total.

    missing: nodes without weights that the table does not have, counted as 0, as is a negative latency;
    measured_ns: what the table says of the whole network, None if it does not; error: (total_ns -
    measured_ns) / measured_ns.
    """

    rows_in = "layers"

    format: Literal["rramalloc-latency-estimate/1"] = "rramalloc-latency-estimate/1"
    network: NetworkId
    total_ns: float
    measured_ns: float | None
    error: float | None
    layers: tuple[EstimatedLayer, ...]
    missing: tuple[str, ...]

    def _headline(self) -> tuple[str, str]:
        end = "" if self.error is None else f", {self.error:+.1%} from what was measured"
        return self.network.name, f"{rounded(self.total_ns)} ns in {counted(len(self.layers), 'layer')}{end}"


def estimate_latency(network: NetworkLike, table: LatencyTableLike) -> LatencyEstimate:
    """Return the sum over all layers of a network.

    Parameters
    ----------
    network
        A Network, a file, or the name of a shipped network.
    table
        The measured latencies: a LatencyTable, a file, or a dict of its form.

    Returns
    -------
    LatencyEstimate
        The sum, the share of every layer, and the error where the whole network was measured too.

    Raises
    ------
    RramallocError
        MissingLatencyError if the table lacks a layer with weights; FileError, SpecError.
    """
    network = as_network(network)
    table = as_latency_table(table)
    timed = timed_nodes(network)
    table.lookup(network, [node for node in timed if isinstance(node, Stage)])
    rows = [(node, table.find(network, node)) for node in timed]
    total_ns = sum(max(row.latency_ns, 0.0) for _, row in rows if row is not None)
    of_network = table.by_text.get(MeasuredLayer.of_network(network).text)
    measured_ns = of_network.latency_ns if of_network is not None and of_network.latency_ns > 0 else None
    layers = tuple(
        EstimatedLayer(
            name=node.name,
            operator=node.op,
            latency_ns=None if row is None else row.latency_ns,
            share=0.0 if row is None or total_ns == 0 else max(row.latency_ns, 0.0) / total_ns,
            flags=() if row is None else row.flags,
        )
        for node, row in rows
    )
    noisy = sum("below_noise" in layer.flags for layer in layers)
    missing = tuple(layer.name for layer in layers if layer.latency_ns is None)
    warnings = []
    if missing:
        words = f"{len(missing)} nodes are not in the table and count as 0, the first is {missing[0][:60]}"
        warnings.append(words)
    if noisy:
        warnings.append(f"{noisy} layers are below the noise of their measurement; negative ones count as 0")
    return LatencyEstimate(
        network=NetworkId.of(network),
        total_ns=total_ns,
        measured_ns=measured_ns,
        error=None if measured_ns is None else (total_ns - measured_ns) / measured_ns,
        layers=layers,
        missing=missing,
        warnings=tuple(warnings),
    )
