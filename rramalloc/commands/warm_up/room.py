"""Room of `rramalloc warm-up`: its command, call, view and record."""

from rramalloc.room import Room

ROOM = Room(
    name="warm_up",
    panel="Installation",
    order=810,
    title="Compile ahead",
    call="warm_up:warm_up",
    example="""Says how long it took and where the compiled code is. Where all is there, nothing is compiled.

Example: rramalloc warm-up""",
    calls=("warm_up:warm_up",),
    records={"warm-up": "warm_up:WarmUp"},
    views={"warm-up": "view:warm_up_view"},
)
