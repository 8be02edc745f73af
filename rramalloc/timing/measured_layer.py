"""Key of a measured latency: an operator with its input shapes and parameters, without its name."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, Self

from pydantic import JsonValue, TypeAdapter, ValidationError, model_validator

from rramalloc.errors import RramallocError
from rramalloc.network.geometry import Shape
from rramalloc.network.network import Network
from rramalloc.network.node import Input, Node, ShapeError, ShapeField
from rramalloc.records import Record, as_tuple, brief, describe, fault

NETWORK = "network"
"""Operator of a whole network; its parameter `sha256` says which."""
FREE = ("identity", "dropout", "flatten")
"""Operators without computation: they take no time on any device."""


_NODE: TypeAdapter[Node] = TypeAdapter(Node)
_SHAPES: TypeAdapter[tuple[ShapeField, ...]] = TypeAdapter(tuple[ShapeField, ...])
_OTHERS = "other_inputs"
_MANY_INPUTS = 1000  # inputs of one operator: bounds what a latency file can ask for
_MOST_SIZES = 4  # sizes of one parameter: pads have four


class MeasuredLayer(Record):
    """The key of a latency table: equal for layers that are the same work for a device.

    operator: `op` of the network JSON, or "network"; shape: (channels, height, width) of the first input;
    parameters: the other fields of the node, with their default if left out; `other_inputs` lists the shapes
    of the second and later inputs. Raises SpecError for fields that no layer has.
    """

    operator: str
    shape: ShapeField
    parameters: dict[str, JsonValue]

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        """Return the data with all defaults written out, so that equal layers have equal texts."""
        if not isinstance(data, dict) or not isinstance(data.get("parameters", {}), dict):
            return data
        operator, parameters = data.get("operator"), data.get("parameters", {})
        if operator == NETWORK:  # a whole network is known by its hash alone
            if not isinstance(parameters.get("sha256"), str) or len(parameters) > 1:
                raise fault("parameters: a network has the parameter sha256 alone")
            return data
        return data | {"parameters": _completed(operator, parameters)}

    @model_validator(mode="after")
    def _has_output(self) -> Self:
        try:
            if self.operator != NETWORK:
                self.node.output_shape(list(self.shapes))
        except ShapeError as error:
            raise fault(f"parameters.{error}") from None
        return self

    @classmethod
    def of(cls, network: Network, node: Node) -> MeasuredLayer:
        """Return the layer that a node of a network is. Raises SpecError for an input node."""
        parameters = node.parameters()
        shapes = [network.shapes[name].as_tuple() for name in node.inputs]
        if len(shapes) > 1:
            parameters[_OTHERS] = [list(shape) for shape in shapes[1:]]
        return cls(operator=node.op, shape=shapes[0] if shapes else (1, 1, 1), parameters=parameters)

    @classmethod
    def of_network(cls, network: Network) -> MeasuredLayer:
        """Return the whole network as one layer; shape: that of its first input."""
        shape = next(node.shape for node in network.nodes if isinstance(node, Input))
        return cls(operator=NETWORK, shape=shape, parameters={"sha256": network.sha256})

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """Shape of every input, the first one first."""
        others: Any = self.parameters.get(_OTHERS, [])
        return (Shape(*self.shape), *(Shape(*shape) for shape in others))

    @cached_property
    def node(self) -> Node:
        """The layer as a node named "layer" with inputs "input0", "input1" and so on."""
        return _node(self.operator, self.parameters, len(self.shapes))

    @cached_property
    def output(self) -> Shape:
        """Shape of the layer's output."""
        return self.node.output_shape(list(self.shapes))

    @property
    def text(self) -> str:
        """All of it in one line, the key of a table: "conv 3x8x8 out_channels=16 kernel=3x3 ..."."""
        return " ".join((self.operator, _value_text(self.shape), parameters_text(self.parameters))).rstrip()

    @property
    def brief_parameters(self) -> str:
        """Parameters that differ from their default, in one line; none of a network."""
        if self.operator == NETWORK:
            return ""
        default = {name: field.default for name, field in type(self.node).model_fields.items()}
        given = self.parameters.items()
        changed = {name: value for name, value in given if default.get(name) != as_tuple(value)}
        return parameters_text(changed)


def timed_nodes(network: Network) -> list[Node]:
    """Return the nodes that take time: all but inputs and the operators in FREE."""
    return [node for node in network.nodes if not isinstance(node, Input) and node.op not in FREE]


def parameters_text(parameters: dict[str, Any]) -> str:
    """Return parameters in one line: "out_channels=16 kernel=3x3 stride=1x1"."""
    return " ".join(f"{name}={_value_text(value)}" for name, value in parameters.items())


def parameters_of(text: str) -> dict[str, Any]:
    """Return the parameters of a text of `parameters_text`. Raises ValueError with words for the user."""
    parameters: dict[str, Any] = {}
    for part in text.split():
        name, equals, value = part.partition("=")
        if not equals or not name or not value:
            raise ValueError(f"must be name=value pairs such as kernel=3x3 stride=1x1, got {brief(part)}")
        if name in parameters:
            raise ValueError(f"{brief(name)} is given twice")
        # A hash may consist of digits: it stays a text.
        parameters[name] = value if name == "sha256" else _value(name, value)
    return parameters


def _completed(operator: Any, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters with every default written out. Raises a validation error for no layer."""
    others: Any = parameters.get(_OTHERS, [])
    try:
        shapes = _SHAPES.validate_python(tuple(others) if isinstance(others, list) else others)
        if len(shapes) > _MANY_INPUTS:
            raise fault(f"parameters.{_OTHERS}: at most {_MANY_INPUTS} shapes, got {len(shapes)}")
        node = _node(operator, parameters, 1 + len(shapes))
    except ValidationError as error:
        raise fault(f"parameters: {describe(error)}") from None
    except RramallocError as error:
        raise fault(f"parameters: {error}") from None
    if isinstance(node, Input) or (node.single and shapes):
        raise fault(f"operator: {brief(operator)} is no layer of {1 + len(shapes)} inputs")
    return node.parameters() | ({_OTHERS: [list(shape) for shape in shapes]} if shapes else {})


def _node(operator: Any, parameters: dict[str, Any], inputs: int) -> Node:
    """Return a node named "layer" with these parameters, which reads "input0", "input1" and so on."""
    fields = {name: value for name, value in parameters.items() if name != _OTHERS}
    fixed: dict[str, Any] = {"name": "layer", "op": operator}
    if operator != "input":
        fixed["inputs"] = [f"input{place}" for place in range(inputs)]
    return _NODE.validate_python(fields | fixed)


def _value_text(value: Any) -> str:
    """Return a value as a text without blanks: 3x3 for sizes, 3x8x8+3x8x8 for several shapes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        between = "+" if value and isinstance(value[0], list | tuple) else "x"
        return between.join(_value_text(part) for part in value)
    return str(value)


def _value(name: str, text: str) -> Any:
    """Return the value that `_value_text` wrote. Raises ValueError."""
    if text in ("true", "false"):
        return text == "true"
    if name in ("mode", "coordinates"):
        return text
    parts = text.split("+" if name == _OTHERS else "x")
    if name == _OTHERS and all(_is_sizes(part.split("x")) for part in parts):
        return [[int(size) for size in part.split("x")] for part in parts]
    if name == _OTHERS or not _is_sizes(parts) or len(parts) > _MOST_SIZES:
        raise ValueError(
            f"{brief(name)}: must be a number, sizes such as 3x3, true or false, got {brief(text)}"
        )
    return int(text) if len(parts) == 1 else [int(part) for part in parts]


def _is_sizes(parts: list[str]) -> bool:
    return all(re.fullmatch(r"[0-9]{1,12}", part) for part in parts)
