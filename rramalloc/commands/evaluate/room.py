"""Room of `rramalloc evaluate`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="evaluate",
    panel="Companions",
    order=610,
    title="Evaluate strategies",
    command="command:command",
    calls=(
        "evaluate:evaluate",
        "evaluation:Evaluation",
    ),
    records={
        "strategy": "strategy:Strategy",
        "load-matrix": "evaluation:LoadMatrix",
        "evaluation": "evaluation:EvaluationDocument",
    },
    views={
        "evaluation": "view:evaluation_view",
    },
    reads={"evaluate": "case -sdk"},
)
