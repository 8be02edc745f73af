"""Small networks for the tests of exports."""

from __future__ import annotations

from random import Random
from typing import Any

from rramalloc.commands.export.export import subject_of
from rramalloc.commands.export.subject import Subject
from rramalloc.hardware.hardware import Hardware
from rramalloc.hardware.tables import Chip, Crossbar, Precision
from rramalloc.network.network import Network

Json = dict[str, Any]


def conv(name: str, source: str, channels: int = 4, kernel: Any = 3, **fields: Any) -> Json:
    pads = fields.pop("pads", 1 if kernel == 3 else 0)
    return {
        "name": name,
        "op": "conv",
        "inputs": [source],
        "out_channels": channels,
        "kernel": kernel,
        "pads": pads,
        **fields,
    }


def of(op: str, name: str, *sources: str, **fields: Any) -> Json:
    return {"name": name, "op": op, "inputs": list(sources), **fields}


def network(*nodes: Json, shape: tuple[int, int, int] = (3, 8, 8)) -> Network:
    return Network.build("net", [{"name": "x", "op": "input", "shape": list(shape)}, *nodes])


def residual() -> Network:
    """conv, sum with a shortcut, pooling and a classifier."""
    return network(
        conv("c1", "x", 4),
        of("batchnorm", "b1", "c1"),
        of("relu", "r1", "b1"),
        conv("c2", "r1", 4),
        of("add", "sum", "c2", "r1"),
        of("relu", "r2", "sum"),
        of("maxpool", "p", "r2", kernel=2, stride=2),
        of("flatten", "f", "p"),
        of("linear", "fc", "f", out_features=10),
    )


def chain() -> Network:
    return network(
        conv("c1", "x", 4, stride=2, pads=[0, 0, 1, 1]),
        of("relu", "r1", "c1"),
        of("maxpool", "p", "r1", kernel=2, stride=2),
        conv("c2", "p", 300),
        of("flatten", "f", "c2"),
        of("linear", "fc", "f", out_features=10),
    )


def machine(
    wordlines: int = 64,
    bitlines: int = 64,
    *,
    cell_bits: int = 4,
    weight_bits: int = 8,
    signed: str = "offset",
    chip: Chip | None = None,
) -> Hardware:
    precision = Precision(weight_bits=weight_bits, input_bits=8, output_bits=8, signed=signed)  # type: ignore[arg-type]
    crossbar = Crossbar(wordlines=wordlines, bitlines=bitlines, cell_bits=cell_bits)
    return Hardware(name="m", source="test", crossbar=crossbar, precision=precision, chip=chip)


def subject(net: Network, copies: dict[str, int] | None = None, hardware: Hardware | None = None) -> Subject:
    return subject_of(net, copies or {}, given={"hardware": hardware or machine()})


def expressible(random: Random, *, branches: bool) -> Network:
    """A network that every tool takes, NeuroSim only without branches: square, ends in a classifier."""
    extent = side = random.choice((8, 9, 12))
    nodes, last, channels = [conv("c0", "x", 300)], "c0", 300
    for index in range(1, random.randint(2, 6)):
        op = random.choice(("conv", "conv", "maxpool", "relu", "add"))
        name = f"n{index}"
        if op == "conv":
            channels, kernel = random.choice((4, 300)), random.choice((1, 3))
            stride = random.choice((1, 1, 2))
            nodes.append(conv(name, last, channels, kernel, stride=stride))
            side = -(-side // stride)
        elif op == "maxpool" and side > 3 and nodes[-1]["op"] == "conv":
            nodes.append(of(op, name, last, kernel=2, stride=2))
            side //= 2
        elif op == "add" and branches:
            nodes += [conv(f"{name}_side", last, channels), of(op, name, f"{name}_side", last)]
        elif nodes[-1]["op"] != "relu":
            nodes.append(of("relu", name, last))
        else:
            continue
        last = name
    tail = [of("flatten", "f", last), of("linear", "fc", "f", out_features=10)]
    return network(*nodes, *tail, shape=(3, extent, extent))
