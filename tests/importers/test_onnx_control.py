"""Branches and loops of ONNX files: what decides them, and what a message says is followed."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from importers.onnx_parts import FLOAT, info, ints, weight
from onnx import TensorProto, helper, numpy_helper

from rramalloc.cli.parameters import parse_input_values
from rramalloc.errors import RramallocError, SpecError, UnsupportedError
from rramalloc.importers.onnx import from_model
from rramalloc.network.counts import weights
from rramalloc.network.coverage import Coverage
from rramalloc.network.network import Network

BOOL, INT = TensorProto.BOOL, TensorProto.INT64
W = weight("w", 4, 3, 3, 3)
CONV = helper.make_node("Conv", ["x", "w"], ["c"], name="conv")


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(op, names, outputs.split(), name=outputs.split()[0], **attributes)


def part(name: str, nodes: Any, outputs: str, inputs: str = "", constants: Any = ()) -> Any:
    given = [helper.make_empty_tensor_value_info(each) for each in inputs.split()]
    made = [helper.make_empty_tensor_value_info(each) for each in outputs.split()]
    return helper.make_graph(list(nodes), name, given, made, list(constants))


def typed(name: str, kind: int, *dims: Any) -> Any:
    return helper.make_tensor_value_info(name, kind, dims)


def model(nodes: Any, inputs: Any = (), constants: Any = (), opset: int = 17) -> Any:
    given = [info("x", 1, 3, 8, 8), *inputs]
    output = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([CONV, *nodes], "graph", given, [output], [W, *constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def load(proto: Any, values: Any = None, *, allow_partial: bool = False) -> Network:
    return from_model(proto, "net.onnx", {}, input_values=values, allow_partial=allow_partial)


def advised(proto: Any) -> tuple[str, Any]:
    """What is said, and the values that it advises to give."""
    with pytest.raises(UnsupportedError, match="control flow") as caught:
        load(proto)
    said = str(caught.value)
    return said, parse_input_values(re.findall(r"--input-value ([^ ,]+)", said))


THEN = part("then", [node("Relu", "c", "a"), node("Identity", "a", "then_y")], "then_y")
PADDED = [
    node("Pad", "c p", "wide"),
    helper.make_node("Conv", ["wide", "k"], ["else_y"], name="second"),
    node("MatMul", "c unused", "unread"),
]
ELSE = part("else", PADDED, "else_y", constants=[weight("k", 2, 4, 3, 3), ints("p", *[0, 0, 1, 1] * 2)])
CHOICE = {"then_branch": THEN, "else_branch": ELSE}
UNUSED = weight("unused", 6, 5)


def scalar(name: str, value: Any) -> Any:
    return numpy_helper.from_array(np.array(value), name)


IFS = {  # nodes behind the convolution; inputs; the input that decides; the other value of what is advised
    "an input": ([node("If", "cached", "y", **CHOICE)], [typed("cached", BOOL, 1)], "cached", False),
    "compared": (
        [node("Equal", "sr rate", "is"), node("If", "is", "y", **CHOICE)],
        [typed("sr", INT)],
        "sr",
        8000,
    ),
    "two inputs": (
        [node("And", "one two", "both"), node("If", "both", "y", **CHOICE)],
        [typed("one", BOOL), typed("two", BOOL, 1)],
        "one",
        False,
    ),
    "in a branch": (
        [
            node(
                "If",
                "yes",
                "y",
                then_branch=part("outer", [node("If", "cached", "z", **CHOICE)], "z"),
                else_branch=part("never", [node("Relu", "c", "q")], "q"),
            )
        ],
        [typed("cached", BOOL)],
        "cached",
        False,
    ),
    "data": (
        [
            node("ReduceSum", "c", "sum", keepdims=0),
            node("Greater", "sum half", "up"),
            node("If", "up", "y", **CHOICE),
        ],
        [],
        "x",
        False,
    ),
}


@pytest.mark.parametrize("case", IFS)
def test_a_branch_is_what_the_user_says(case: str) -> None:
    """The message names the input that decides and an option that works; the other value gives the other
    branch. It is read as if it stood in the graph: a Pad joins its convolution, unread nodes are left out."""
    nodes, inputs, decides, other = IFS[case]
    constants = [scalar("rate", 16000), scalar("half", np.float32(0.5)), scalar("yes", True), UNUSED]
    proto = model(nodes, inputs, constants)
    said, values = advised(proto)
    assert f"{decides!r}" in said
    assert "(If)" in said
    network = load(proto, values)
    assert [each.op for each in network.nodes] == ["input", "conv", "relu", "identity"]
    assert all(f"{name} = " in network.source for name in values)
    network = load(proto, dict.fromkeys(values, other))
    assert [each.op for each in network.nodes] == ["input", "conv", "conv"]
    assert str(network.shapes["second"]) == "2 x 6 x 6"
    plain = load(
        model(
            [PADDED[0], helper.make_node("Conv", ["wide", "k"], ["y"], name="second")], [], ELSE.initializer
        )
    )
    assert plain.nodes == network.nodes


def test_inputs_that_only_the_other_branch_reads_need_no_shape() -> None:
    """The caches of a merged decoder, also in a branch of the branch that runs, when there is none yet."""
    cached = part("cached", [node("Concat", "c past", "joined", axis=2), node("Relu", "joined", "r")], "r")
    first = part("first", [node("Tanh", "c", "t")], "t")
    inner = part("inner", [node("If", "cached", "z", then_branch=cached, else_branch=first)], "z")
    inputs = [info("past", 1, 4, "length", 6), typed("cached", BOOL, 1)]
    for branch in (first, inner):
        proto = model([node("If", "cached", "y", then_branch=cached, else_branch=branch)], inputs)
        network = load(proto, {"cached": False})
        assert [each.op for each in network.nodes] == ["input", "conv", "activation"]
        with pytest.raises(UnsupportedError, match="input 'past': its shape is open"):
            load(proto, {"cached": True})


def body(weighted: bool) -> Any:
    """A round: (1, 4, 6, 6) times itself, and where it has weights a linear layer of 6 x 6."""
    product = [
        node("MatMul", "h h", "m"),
        node("MatMul", "m v", "h2") if weighted else node("Tanh", "m", "h2"),
    ]
    more = [node("ReduceMax", "h2", "o", keepdims=0), node("Identity", "go", "on")]
    return part("body", [*product, *more], "on h2 o", "i go h")


LOOPS = {  # trip count and condition, inputs, rounds
    "a constant": ("n true", [], 7),
    "many rounds": ("many true", [], 10**6),
    "no condition": ("n -", [], 7),
    "an input": ("rounds true", [typed("rounds", INT, 1)], 1),
    "the condition an input": ("n flag", [typed("flag", BOOL)], 7),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", LOOPS)
def test_a_loop_of_a_known_length_is_a_barrier(case: str, weighted: bool) -> None:
    """Its products count as often as it runs; its weights once, as not modelled, with --allow-partial."""
    taken, inputs, rounds = LOOPS[case]
    constants = [scalar("n", 7), scalar("many", 10**6), scalar("true", True), weight("v", 6, 6)]
    loop = node("Loop", f"{taken} c", "y all", body=body(weighted))
    proto = model([loop], inputs, constants)
    values = advised(proto)[1] if inputs else None
    if weighted:
        with pytest.raises(UnsupportedError, match=r"weights cannot be modelled: Loop .*--allow-partial"):
            load(proto, values)
    network = load(proto, values, allow_partial=True)
    (barrier,) = [each for each in network.nodes if each.op == "barrier"]
    products = rounds * 4 * 6**3
    assert getattr(barrier, "dynamic_macs", None) == products
    assert any(text.startswith("operator Loop (1 node") for text in network.warnings)
    cover = Coverage.of(network, ["conv"])
    assert cover.weights.total == 108 + 36 * weighted
    assert cover.macs.total == 36 * 108 + products + rounds * 24 * 36 * weighted


def test_a_loop_that_counts_through_stacked_layers_has_the_weights_of_all() -> None:
    """Five rounds on 4 tokens: a matrix of 6 x 6 of each, and one that they share."""
    nodes = [
        node("Identity", "go", "on"),
        node("Gather", "stack i", "u"),
        node("MatMul", "h u", "p"),
        node("MatMul", "p v", "h2"),
    ]
    loop = node("Loop", "five true c", "y", body=part("body", nodes, "on h2", "i go h"))
    stored = [weight("stack", 8, 6, 6), weight("v", 6, 6), scalar("five", 5), scalar("true", True)]
    network = load(model([loop], [], stored), allow_partial=True)
    assert [(item.weights, item.macs) for item in network.unmodelled] == [(6 * 36, 2 * 5 * 24 * 36)]


def test_a_scan_over_stacked_layers_has_the_weights_of_all() -> None:
    """Five layers of two matrices of 6 x 6, as JAX writes them, on 4 tokens."""
    nodes = [node("MatMul", "h u", "p"), node("MatMul", "p v", "h2"), node("Identity", "h2", "o")]
    scan = node("Scan", "c wu wv", "y all", body=part("body", nodes, "h2 o", "h u v"), num_scan_inputs=2)
    network = load(model([scan], [], [weight("wu", 5, 6, 6), weight("wv", 5, 6, 6)]), allow_partial=True)
    assert [(item.weights, item.macs) for item in network.unmodelled] == [(2 * 5 * 36, 2 * 5 * 24 * 36)]


def test_the_outputs_of_a_scan_have_its_length() -> None:
    """Twelve rounds on columns of 3: states of 5, outputs along another axis; a row of weights is counted."""
    inner = part(
        "body",
        [node("MatMul", "u v", "p"), node("Add", "h p", "h2"), node("Identity", "h2", "o")],
        "h2 o",
        "h u",
    )
    scan = {"body": inner, "num_scan_inputs": 1, "scan_input_axes": [1], "scan_output_axes": [1]}
    nodes = [
        node("Reshape", "c flat", "r"),
        node("Scan", "h0 r", "end all", **scan),
        node("MatMul", "all out", "y"),
    ]
    constants = [ints("flat", 12, 12), weight("v", 12, 5), weight("out", 12, 2), weight("h0", 5)]
    network = load(model(nodes, [], constants), allow_partial=True)
    assert [weights(network, stage) for stage in network.stages] == [108, 24]
    assert str(network.shapes["y"]) == "2 x 5 x 1"  # 5 x 12 times 12 x 2
    assert [(item.weights, item.macs) for item in network.unmodelled] == [(60, 12 * 60)]
    wrong = node("Scan", "h0 r r", "end y", **scan | {"num_scan_inputs": 2, "scan_input_axes": [1, 1]})
    with pytest.raises(SpecError, match="body: must be a graph with 3 inputs and 2 outputs"):
        load(model([nodes[0], wrong], [], constants))


RECURRENT = {  # operator, its inputs and attributes: 12 rounds on rows of 12 values, from a state of zeros
    "Scan": ("Scan", "h0 r", "h u", {"num_scan_inputs": 1}),
    "Loop": ("Loop", "n true h0", "i go h", {}),
}


@pytest.mark.parametrize("op", RECURRENT)
@pytest.mark.parametrize("rounds", [12, 10_000])
def test_a_state_that_begins_constant_is_data_in_later_rounds(op: str, rounds: int) -> None:
    """A recurrence that starts from zeros: its 12 x 12 weights count, and its products as often as it runs.

    The first product of a loop that is followed round by round is one of constants.
    """
    kind, taken, names, attributes = RECURRENT[op]
    nodes = [node("MatMul", "h v", "p"), node("Add", "p u" if op == "Scan" else "p row", "h2")]
    outputs = "h2 o" if op == "Scan" else "on h2 o"
    nodes += [node("Identity", "h2", "o"), node("Identity", "go", "on")][: len(outputs.split()) - 1]
    inner = part("body", nodes, outputs, names)
    pick = [node("Reshape", "c flat", "r"), node("Gather", "r first", "row", axis=0)]
    loop = node(kind, taken, "end all", body=inner, **attributes)
    constants = [ints("flat", 12, 12), weight("v", 12, 12), weight("h0", 12), scalar("first", 0)]
    constants += [scalar("n", rounds), scalar("true", True)]
    proto = model([*pick, loop, node("Relu", "end", "y")], [], constants)
    with pytest.raises(UnsupportedError, match=rf"{op} '.*' \(144 weights\).*--allow-partial"):
        load(proto)
    (lost,) = load(proto, allow_partial=True).unmodelled
    run = 12 if op == "Scan" else rounds - (rounds == 12)
    assert (lost.weights, lost.macs) == (144, 144 * run)


def test_a_state_that_every_round_changes_has_no_known_value() -> None:
    """A counter that decides what a round runs: the first round does not stand for all."""
    relu = part("then", [node("Relu", "u", "a")], "a")
    other = part("else", [node("Tanh", "u", "b")], "b")
    nodes = [
        node("Greater", "h half", "late"),
        node("If", "late", "o", then_branch=relu, else_branch=other),
        node("Add", "h half", "h2"),
    ]
    scan = node("Scan", "h0 r", "end y", body=part("body", nodes, "h2 o", "h u"), num_scan_inputs=1)
    constants = [ints("flat", 12, 12), scalar("half", np.float32(0.5)), scalar("h0", np.float32(0))]
    with pytest.raises(UnsupportedError, match=r"\(If\): control flow: which branch runs"):
        load(model([node("Reshape", "c flat", "r"), scan], [], constants))


def test_a_loop_of_constants_makes_constants() -> None:
    """Counts to 3 and doubles: 1, 2, 4, 8; the shape that it makes is used."""
    inner = part(
        "body",
        [node("Add", "h h", "h2"), node("Less", "i two", "on")],
        "on h2",
        "i go h",
    )
    loop = node("Loop", "- true one", "eight", body=inner)
    nodes = [loop, node("Concat", "eight rest", "t", axis=0), node("Reshape", "c t", "y")]
    constants = [ints("one", 1), ints("rest", 18), scalar("two", 2), scalar("true", True)]
    network = load(model(nodes, [], constants))
    shape = network.shapes[network.nodes[-1].name]
    assert (shape.channels, shape.pixels) == (8, 18)


def refused(taken: str, nodes: Any, outputs: str, inputs: Any = (), flags: str = "true") -> str:
    inner = part("body", nodes, outputs, "i go h")
    constants = [scalar("true", True), scalar("half", np.float32(0.5)), scalar("many", 10**9)]
    proto = model([node("Loop", f"{taken} c", "y", body=inner)], inputs, constants)
    with pytest.raises(UnsupportedError, match="control flow") as caught:
        load(proto)
    return str(caught.value)


def test_loops_that_cannot_be_followed() -> None:
    """Data decides, it never ends, or its rounds are not alike: the message says what helps."""
    stays = [node("Tanh", "h", "h2"), node("Identity", "go", "on")]
    until = [
        node("Tanh", "h", "h2"),
        node("ReduceSum", "h2", "s", keepdims=0),
        node("Greater", "s half", "on"),
    ]
    assert "decided by input 'x'" in refused("- true", until, "on h2")
    assert "fixed number of rounds" in refused("- true", until, "on h2")
    assert "does not end" in refused("- true", stays, "on h2")
    grows = [node("Concat", "h h", "h2", axis=1), node("Identity", "go", "on")]
    assert "not alike" in refused("many true", grows, "on h2")
    assert "'n'" in refused("n true", stays, "on h2", [typed("n", INT)])


@pytest.mark.parametrize(
    ("op", "inputs", "fields", "message"),
    [
        ("If", "", CHOICE, "needs input 0"),
        ("If", "-", CHOICE, "needs input 0"),
        ("If", "yes", {"then_branch": THEN}, "else_branch: must be a graph"),
        ("Loop", "- - c", {}, "body: must be a graph"),
        ("Loop", "three yes", {"body": THEN}, "body: must be a graph"),
        ("Scan", "c", {"body": THEN}, "num_scan_inputs: got 0"),
        ("Scan", "c", {"body": THEN, "num_scan_inputs": 1}, "body: must be a graph"),
    ],
)
def test_damaged_control_flow(op: str, inputs: str, fields: Any, message: str) -> None:
    constants = [scalar("yes", False), scalar("three", 3), UNUSED]
    with pytest.raises(RramallocError, match=message):
        load(model([node(op, inputs, "y", **fields)], [], constants))


VALUES = {  # values given; a part of the message
    "unknown": (
        {"nothing": True},
        "no input and no condition of a branch has this name; known: 'x', 'cached'",
    ),
    "no number": ({"cached": "yes"}, "must be a number"),
    "no truth value": ({"cached": 2}, "must be bool"),
    "too many": ({"cached": [True, False]}, "got 2 numbers"),
    "not finite": ({"cached": math.inf}, "must be a number"),
    "all inputs": ({"cached": True, "x": 0.0}, "without a given value"),
}


@pytest.mark.parametrize("case", VALUES)
def test_values_are_checked(case: str) -> None:
    values, message = VALUES[case]
    nodes, inputs, _, _ = IFS["an input"]
    with pytest.raises(RramallocError, match=re.escape(message)):
        load(model(nodes, inputs, [UNUSED]), values)


def test_values_of_several_elements() -> None:
    """A vector of two sizes, one of an open length, and a default that the file stores."""
    nodes = [
        node("Cast", "size", "s", to=INT),
        node("Concat", "one four s", "t", axis=0),
        node("Reshape", "c t", "y"),
    ]
    constants = [ints("one", 1), ints("four", 4)]
    for inputs in ([typed("size", FLOAT, 2)], [typed("size", FLOAT, "n")]):
        network = load(model(nodes, inputs, constants), {"size": (4.0, 9.0)})
        assert str(network.shapes[network.nodes[-1].name]) == "4 x 4 x 9"
    choice, inputs = [node("If", "flag", "y", **CHOICE)], [typed("flag", BOOL)]
    for given, ops in ((None, ["conv"]), ({"flag": True}, ["relu", "identity"])):
        network = load(model(choice, inputs, [scalar("flag", False), UNUSED]), given)
        assert [each.op for each in network.nodes] == ["input", "conv", *ops]
