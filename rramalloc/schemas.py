"""JSON Schemas of all file formats, made from the records that read and write them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rramalloc.errors import UnknownNameError

if TYPE_CHECKING:
    from rramalloc.records import Record

_RECORDS = {
    "network": "rramalloc.network.network:NetworkDocument",
    "hardware": "rramalloc.hardware.hardware:Hardware",
    "allocation": "rramalloc.allocation.allocation:Allocation",
    "replication": "rramalloc.allocation.allocation:BareReplication",
    "simulation": "rramalloc.allocation.simulation:Simulation",
    "sweep": "rramalloc.commands.sweep.rows:SweepDocument",
    "sweep-spec": "rramalloc.commands.sweep.spec:Spec",
    "sweep-status": "rramalloc.commands.sweep.rows:SweepStatus",
    "tuning": "rramalloc.commands.tune.tuning:Tuning",
    "inspection": "rramalloc.allocation.inspection:Inspection",
    "comparison": "rramalloc.commands.compare.comparison:Comparison",
    "fold": "rramalloc.commands.fold.filter_folding:FilterFold",
    "network-fold": "rramalloc.commands.fold.filter_folding:NetworkFold",
    "latency": "rramalloc.timing.latency_table:LatencyTable",
    "latency-estimate": "rramalloc.commands.latency.estimate:LatencyEstimate",
    "reload": "rramalloc.commands.reload.plan:ReloadPlan",
    "explanation": "rramalloc.commands.explain.explanation:Explanation",
    "size": "rramalloc.commands.size.sizing:Sizing",
    "size-spec": "rramalloc.commands.size.question:SizeQuestion",
    "pareto": "rramalloc.commands.pareto.pareto_front:ParetoFront",
    "strategy": "rramalloc.commands.evaluate.strategy:Strategy",
    "load-matrix": "rramalloc.commands.evaluate.evaluation:LoadMatrix",
    "evaluation": "rramalloc.commands.evaluate.evaluation:EvaluationDocument",
    "placement": "rramalloc.commands.place.placement:Placement",
    "verification": "rramalloc.commands.verify.verification:Verification",
    "export": "rramalloc.commands.export.targets.json:ExportDocument",
    "exported": "rramalloc.commands.export.bundle:Export",
    "export-check": "rramalloc.commands.export.bundle:ExportCheck",
    "chiplet": "rramalloc.commands.chiplet.description:Description",
    "chiplet-cost": "rramalloc.commands.chiplet.cost:ChipletCost",
    "chiplet-comparison": "rramalloc.commands.chiplet.cost:ChipletComparison",
    "chiplet-schedule": "rramalloc.commands.chiplet.chiplet_optimize:ChipletSchedule",
}


def schema_names() -> tuple[str, ...]:
    """Names of all file formats."""
    return tuple(_RECORDS)


def record_of(name: str) -> type[Record]:
    """Return the record of a file format. Raises UnknownNameError."""
    if name not in _RECORDS:
        raise UnknownNameError("schema", name, schema_names())
    module, _, record = _RECORDS[name].partition(":")
    kind: type[Record] = getattr(import_module(module), record)
    return kind


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file format. Raises UnknownNameError."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | record_of(name).model_json_schema()
