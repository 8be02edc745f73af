"""Groups, what lies between them, and the network's cost (SYSTEMS.md 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from rramalloc.network.node import Name
from rramalloc.records import Record
from rramalloc.shown import Shown, counted

if TYPE_CHECKING:
    import pandas as pd


class OperatorCost(Record):
    """compute, communication inside the operator and its routing; cost: their sum."""

    compute: float
    communication: float
    routing: float
    cost: float


class GroupCost(Record):
    """Operators that run at the same time; cost: of the slowest."""

    operators: dict[Name, OperatorCost]
    cost: float


class EdgeCost(Record):
    """Operator `to` reads what `from` wrote; cost: communication + routing."""

    source: Name = Field(alias="from")
    to: Name
    communication: float
    routing: float
    cost: float


class ChipletCost(Shown, Record):
    """Cost of a network on chiplets: the groups one after the other, with what is moved between them.

    between: for each group and the next, the sum of `edges` into that next group; unit: of all costs.
    """

    format: Literal["rramalloc-chiplet-cost/1"] = "rramalloc-chiplet-cost/1"
    total: float
    unit: Literal["cycles", "ns"]
    groups: tuple[GroupCost, ...]
    between: tuple[float, ...]
    edges: tuple[EdgeCost, ...]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The document that `chiplet cost --format json` prints."""
        return self.model_dump(mode="json", by_alias=True)

    def to_frame(self) -> pd.DataFrame:
        """One row per operator: group (from 0), operator, compute, communication, routing, cost."""
        import pandas as pd

        rows = [
            {"group": index, "operator": name} | operator.model_dump()
            for index, group in enumerate(self.groups)
            for name, operator in group.operators.items()
        ]
        return pd.DataFrame(rows)

    def _headline(self) -> tuple[str, str]:
        return "", f"{self.total:,.6g} {self.unit} in {counted(len(self.groups), 'group')} of operators"


class Terms(NamedTuple):
    """The parts of one operator's cost, or of an edge's, which computes nothing."""

    compute: float
    communication: float
    routing: float


def total_cost(
    groups: Sequence[Mapping[str, Terms]], edges: Iterable[tuple[str, str, Terms]],
    unit: Literal["cycles", "ns"], warnings: Sequence[str] = (),
) -> ChipletCost:  # fmt: skip
    """Sum of the groups and of what lies between them.

    An edge that leaps over groups counts before the group that reads it.  Source: SYSTEMS.md 2.
    """
    group_of = {name: index for index, group in enumerate(groups) for name in group}
    costs = tuple(_group(group) for group in groups)
    between = [0.0] * max(0, len(groups) - 1)
    written = []
    for source, to, terms in edges:
        cost = terms.communication + terms.routing
        between[group_of[to] - 1] += cost
        fields = {"from": source, "to": to, "communication": terms.communication}
        written.append(EdgeCost(**fields, routing=terms.routing, cost=cost))  # type: ignore[arg-type]
    return ChipletCost(
        total=sum(group.cost for group in costs) + sum(between),
        unit=unit,
        groups=costs,
        between=tuple(between),
        edges=tuple(written),
        warnings=tuple(warnings),
    )


def _group(group: Mapping[str, Terms]) -> GroupCost:
    operators = {
        name: OperatorCost(
            compute=terms.compute, communication=terms.communication, routing=terms.routing, cost=sum(terms)
        )
        for name, terms in group.items()
    }
    return GroupCost(operators=operators, cost=max(operator.cost for operator in operators.values()))
