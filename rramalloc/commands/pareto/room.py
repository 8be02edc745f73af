"""Room of `rramalloc pareto`: its command, calls, view and records."""

from rramalloc.room import Room

ROOM = Room(
    name="pareto",
    panel="Size a chip",
    order=230,
    title="All budgets at once",
    command="command:command",
    calls=(
        "pareto:pareto",
        "pareto_front:ParetoFront",
    ),
    records={
        "pareto": "pareto_front:ParetoFront",
    },
    views={
        "pareto": "view:front_view",
    },
    reads={"pareto": "case copies copies_divide area objective interval placed"},
)
