"""Drawn problems with modes, clocks, memories, kinds of arrays and bits; questions, and what is right.

Every answer of the program is held against all allocations (`exhaustive`): what it returns exists and is what
it says, no bound is above the best, what is called proven is, and nothing is refused that exists.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
from laws.exhaustive import Bits, Columns, Everything, Limits, Machine, everything
from laws.strategies import random_network

import rramalloc
from rramalloc.errors import LimitError, RramallocError, TargetError
from rramalloc.hardware.hardware import Hardware
from rramalloc.network.network import Network
from rramalloc.network.node import ConvTranspose

SAME = 1e-9
FEATURES = ("modes", "time", "kinds", "bits")
"""What may meet: mapping sdk, own clocks or a memory or both, kinds of arrays, and a table of bits."""
OPS = ("conv", "conv", "conv", "conv_transpose", "add", "concat", "maxpool", "upsample", "linear", "flatten")
IMAGE_OPS = (*OPS, "raster", "windows", "merge", "reduce", "frames")
LEAST_ALLOCATIONS = 20
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Drawn:
    """A problem with all its allocations.

    arrays: budget of a call, None where kinds have numbers; at_most_um2: limit of the area in place of one;
    sensitivity: limit of the sum.
    """

    every: Everything
    arrays: int | None
    at_most_um2: float | None
    sensitivity: float | None

    @property
    def machine(self) -> Machine:
        return self.every.machine

    @property
    def by_area(self) -> bool:
        """Whether arrays of several kinds are counted by their area."""
        return self.machine.hardware.kinds is not None and self.machine.hardware.counts_area

    @property
    def cost(self) -> Columns:
        """What an allocation costs, in the unit of objective `arrays`."""
        return self.every.quantities["area" if self.by_area else "arrays"]

    def document(self, row: int) -> dict[str, Any]:
        """Return an allocation as a file of its own, without its bits."""
        machine, numbers = self.machine, self.every.rows[row].tolist()
        modes = [own[at] for own, at in zip(self.every.modes, numbers, strict=True)]
        each = {
            stage.name: mode
            for stage, mode in zip(machine.stages, modes, strict=True)
            if machine.is_layer(stage)
        }
        given: dict[str, Any] = {"copies": {name: mode.copies for name, mode in each.items()}}
        if machine.sdk:
            given["block"] = {name: mode.block for name, mode in each.items()}
        if machine.hardware.kinds is not None:
            given["kind"] = {name: machine.hardware.kinds[mode.kind].name for name, mode in each.items()}
        return given

    def options(self, folder: Path) -> dict[str, Any]:
        """Return the arguments of a call; folder: for the table of bits."""
        machine = self.machine
        given: dict[str, Any] = {"hardware": machine.hardware, "mapping": "sdk" if machine.sdk else "im2col"}
        if self.at_most_um2 is not None:
            given["at_most"] = {"area_um2": self.at_most_um2}
        if machine.bits:
            path = folder / "bits.csv"
            rows = [(name, *bits) for name, some in machine.bits.items() for bits in some]
            text = "\n".join(",".join(map(str, row)) for row in rows)
            path.write_text(f"layer,weight_bits,input_bits,sensitivity\n{text}\n")
            given |= {"bits": path, "sensitivity": self.sensitivity}
        return given


def draw(random: Random, features: Sequence[str], least: int, most: int) -> Drawn:
    """Draw a problem with these features and, now and then, others, of `least` to `most` allocations.

    Bits are drawn only if asked for, as no front takes them.
    """
    while True:
        more = [name for name in (*FEATURES, "images") if name != "bits" and random.random() < 0.25]
        chosen = {*features, *more}
        if "time" in chosen:
            chosen |= set(random.choice((["clock"], ["memory"], ["clock", "memory"])))
        network = _network(random, large=most > 10**5, images=4 if "images" in chosen else 1)
        machine = Machine(
            network,
            _hardware(random, chosen),
            "modes" in chosen,
            _bits(random, network) if "bits" in chosen else {},
        )
        dilated = [own for own in machine.layers if isinstance(own, ConvTranspose) and own.dilation != (1, 1)]
        if dilated or not machine.layers:
            continue  # docs/sources/model.md 10 defines none
        drawn = _limited(random, machine, most)
        if drawn is not None and least <= len(drawn.every.rows):
            return drawn


def _network(random: Random, *, large: bool, images: int = 1) -> Network:
    """A chain, or a graph of any operators; some layers have bits of their own. images: most of an input."""
    if images > 1:
        nodes = random_network(random, 5, 3, IMAGE_OPS, images).to_dict()["nodes"]
    elif random.random() < 0.4:
        nodes = random_network(random, 8 if large else 6, 5, OPS).to_dict()["nodes"]
    else:
        shape = [random.choice((1, 2, 4)), random.choice((1, 1, 2, 3, 4)), random.choice((2, 3, 4, 6))]
        nodes = [{"name": "in", "op": "input", "shape": shape}]
        for number in range(random.randint(3 if large else 1, 5 if large else 4)):
            nodes.append(_layer(random, f"n{number}", nodes[-1]["name"]))
    for node in nodes:
        if node["op"] in ("conv", "conv_transpose", "linear") and random.random() < 0.15:
            node["weight_bits"], node["input_bits"] = random.choice((2, 4)), random.choice((2, 8))
    return Network.build("drawn", nodes, source="generated")


def _layer(random: Random, name: str, source: str) -> dict[str, Any]:
    op = random.choice(("conv", "conv", "conv", "linear", "relu", "maxpool"))
    node: dict[str, Any] = {"name": name, "op": op, "inputs": [source]}
    if op == "conv":
        kernels: list[dict[str, Any]] = [{"kernel": 1}, {"kernel": 3, "pads": 1}]
        kernels += [{"kernel": [1, 3], "pads": [0, 1, 0, 1]}, {"kernel": 1, "stride": [1, 2]}]
        node |= random.choice(kernels) | {"out_channels": random.randint(1, 8)}
    elif op == "linear":
        node["out_features"] = random.randint(1, 12)
    elif op == "maxpool":
        node |= {"kernel": [1, 2], "pads": [0, 0, 0, 1]}
    return node


def _bits(random: Random, network: Network) -> dict[str, list[Bits]]:
    """One to three precisions of some layers, often with less sensitivity for more bits."""
    names = [stage.name for stage in network.stages if network.shapes[stage.name].pixels > 1]
    table = dict[str, list[Bits]]()
    for name in random.sample(names, random.randint(1, len(names))) if names else ():
        pairs = {
            (random.choice((1, 2, 4, 6, 8)), random.choice((1, 2, 4, 8))) for _ in range(random.randint(1, 3))
        }
        ordered = sorted(pairs, reverse=random.random() < 0.8)
        table[name] = [
            (*pair, float(place if random.random() < 0.8 else 0)) for place, pair in enumerate(ordered)
        ]
    return table


def _hardware(random: Random, features: set[str]) -> Hardware:
    own = "clock" in features
    side = random.choice((8, 16)), random.choice((8, 16))
    timing: dict[str, Any] = {"read_ns": random.choice((1.0, 5.0)), "dac_bits": random.choice((1, 4))}
    if random.random() < 0.2:
        timing = {"step_ns": 10.0}
    elif own or "kinds" not in features:
        if random.random() < 0.5:
            timing |= {"adc_ns": random.choice((0.5, 1.3)), "columns_per_adc": random.choice((1, 4, 8))}
        if random.random() < 0.5:
            timing["rows_per_read"] = random.choice((2, 4))
    timing |= {"clock": "own", "tick_ns": random.choice((1.0, 2.5))} if own else {}
    tables: dict[str, Any] = {
        "name": "drawn",
        "source": "generated",
        "crossbar": {"wordlines": side[0], "bitlines": side[1], "cell_bits": random.choice((2, 4)),
                     "slices": random.choice(("columns", "columns", "arrays"))},
        "precision": {"weight_bits": random.choice((2, 4, 8)), "input_bits": random.choice((2, 8)),
                      "output_bits": 8, "signed": random.choice(("offset", "offset", "differential"))},
        "timing": timing,
    }  # fmt: skip
    energy = _energy(random)
    if random.random() < 0.85:
        tables["energy"] = energy
    if "memory" in features:
        tables["memory"] = {
            "bandwidth_gb_s": random.choice((0.1, 1.0, 3.0)),
            "reuse": random.choice(("none", "row", "full")),
            "scope": random.choice(("per_layer", "shared")),
        }
    if own and random.random() < 0.25:
        rates = {"relu": (1.0, 4.0), "maxpool": (1.0, 6.0), "add": (2.0, 5.0), "concat": (1.0, 3.0)}
        tables["digital"] = {"ns_per_pixel": {op: random.choice(some) for op, some in rates.items()}}
    if "kinds" in features:
        tables["kinds"] = _kinds(random, side, timing, with_energy="energy" in tables)
    return Hardware.model_validate(tables)


def _energy(random: Random) -> dict[str, float]:
    values = {
        "read_pj": (0.0, 0.5, 2.0, 5.0),
        "leakage_mw": (0.0, 0.01, 0.3, 1.0),
        "area_um2": (5.0, 10.0, 20.0),
    }
    return {name: random.choice(some) for name, some in values.items()}


def _kinds(
    random: Random, side: tuple[int, int], timing: Mapping[str, Any], *, with_energy: bool
) -> list[dict[str, Any]]:
    kinds = list[dict[str, Any]]()
    for name, factor in (("small", 1), ("large", 2), ("wide", 1))[: random.choice((2, 2, 2, 3))]:
        lines = factor * side[0], (2 if name == "wide" else factor) * side[1]
        kind: dict[str, Any] = {"name": name, "crossbar": {"wordlines": lines[0], "bitlines": lines[1]}}
        if with_energy:
            kind["energy"] = _energy(random)
        if timing.get("clock") == "own" and "read_ns" in timing and random.random() < 0.3:
            kind["timing"] = {"read_ns": random.choice((1.0, 2.0, 5.0))}
        kinds.append(kind)
    if timing.get("clock") == "own" and random.random() < 0.6:
        energy = _energy(random) if with_energy else {}
        if energy.pop("read_pj", None) is not None:
            energy["pj_per_mac"] = random.choice((0.0, 0.02, 0.5))
        unit = {"macs_per_ns": random.choice((0.5, 4.0, 16.0))} | energy
        kinds[random.randrange(len(kinds))] = {"name": "digital", "processor": unit}
    return kinds


def _limited(random: Random, machine: Machine, most: int) -> Drawn | None:
    """Return the machine with a budget, or numbers of its kinds, and a limit of the sensitivity."""
    limit = None
    if machine.bits and random.random() < 0.8:
        values = [[bits[2] for bits in some] for some in machine.bits.values()]
        limit = float(random.randint(int(sum(map(min, values))), int(sum(map(max, values)))))
    sensitivity, hardware = math.inf if limit is None else limit, machine.hardware
    spare = random.choice((2, 4, 8, 16, 30))
    if hardware.kinds is None:
        least = [min(mode.arrays for mode in machine.modes(stage, [2**20])) for stage in machine.stages]
        budget = sum(least) + random.randint(0, spare)
        every = everything(machine, Limits((budget,), budget, math.inf, sensitivity), most)
        return None if every is None else Drawn(every, budget, None, limit)
    total, area = None, None
    numbers: list[int | None] = [random.randint(1, len(machine.stages) + spare) for _ in hardware.kinds]
    if random.random() < 0.3:
        total = random.randint(len(machine.stages), len(machine.stages) + spare)
    if hardware.counts_area and random.random() < 0.2:
        numbers = [None for _ in numbers]
        area = float(random.randint(10, 20 * (len(machine.stages) + spare)))
    kinds = tuple(
        kind.model_copy(update={"arrays": number})
        for kind, number in zip(hardware.kinds, numbers, strict=True)
    )
    machine = Machine(
        machine.network, hardware.model_copy(update={"kinds": kinds}), machine.sdk, machine.bits
    )
    whole = 2**20 if total is None else total
    limits = Limits(tuple(number or whole for number in numbers), whole, area or math.inf, sensitivity)
    if area is not None:
        areas = [own.energy.area_um2 or 1.0 for own in hardware.each_kind if own.energy is not None]
        limits = limits._replace(kinds=tuple(min(whole, int(area / own)) for own in areas))
    every = everything(machine, limits, most)
    return None if every is None else Drawn(every, total, area, limit)


VALUES = {"latency": "latency_ns", "interval": "interval_ns", "energy": "energy", "edp": "edp",
          "sequential": "sequential_ns"}  # fmt: skip
"""Objectives of `optimize`, and what they minimise."""
LIMITED = {"area_um2": "area", "energy_pj": "energy", "power_mw": "power_mw", "latency_ns": "latency_ns",
           "interval_ns": "interval_ns"}  # fmt: skip
"""Quantities that may be limited, and their columns."""


class WrongAnswerError(AssertionError):
    """An answer of the program that is wrong."""


def ask(drawn: Drawn, question: str, random: Random, folder: Path, work: int) -> str:
    """Ask the program a question about a problem; return in a word how it ended. Raises WrongAnswerError."""
    return QUESTIONS[question](drawn, random, folder, work)


def _objective(drawn: Drawn, random: Random) -> str:
    names = list(VALUES)
    if drawn.machine.hardware.energy is None:
        names = [name for name in names if name not in ("energy", "edp")]
    return random.choice(names)


def _ask_objective(drawn: Drawn, random: Random, folder: Path, work: int) -> str:
    name = _objective(drawn, random)
    asked: dict[str, Any] = {"objective": name}
    if name == "latency" and random.random() < 0.3:
        asked["inputs"] = random.choice((2, 3, 10))
    return _optimized(drawn, asked, np.ones(len(drawn.every.rows), dtype=np.bool_), folder, work)


def _ask_hold(drawn: Drawn, random: Random, folder: Path, work: int) -> str:
    """Copies of some layers, and of what they must be divisors."""
    every, stages, held = drawn.every, drawn.machine.stages, {}
    mask, divide = np.ones(len(every.rows), dtype=np.bool_), random.choice((None, None, "width", "windows"))
    pattern = random.random() < 0.2
    for stage, (node, modes) in enumerate(zip(stages, every.modes, strict=True)):
        if not drawn.machine.is_layer(node):
            continue
        most = max(mode.blocks for mode in modes)
        low = 2 if pattern else random.randint(1, min(most, 4))
        high = 2**40 if pattern else random.randint(low, min(most, low + 4))
        if pattern or random.random() < 0.5:
            held["*" if pattern else node.name] = f"{low}.." if pattern else (low, high)
            mask &= every.fits(stage, [low <= mode.copies <= high for mode in modes])
        if divide is not None:
            of = [mode.in_row if divide == "width" else mode.blocks for mode in modes]
            mask &= every.fits(stage, [own % m.copies == 0 for own, m in zip(of, modes, strict=True)])
    asked: dict[str, Any] = {"copies": held, "copies_divide": divide, "objective": _objective(drawn, random)}
    if random.random() < 0.15 and not drawn.machine.bits:
        return _front(drawn, asked, mask, random, folder, work)
    if random.random() < 0.3 and not drawn.machine.bits and mask.any():
        row = int(random.choice(np.flatnonzero(mask).tolist()))
        asked["start"] = drawn.document(row)
        mask &= _objective_column(drawn, asked)[1] <= _objective_column(drawn, asked)[1][row] * (1 + SAME)
        work = random.choice((0, work))
    return _optimized(drawn, asked, mask, folder, work)


def _ask_target(drawn: Drawn, random: Random, folder: Path, work: int) -> str:
    """The least cost for a time that an allocation has, or for a little less than any has."""
    values = drawn.every.quantities
    name = random.choice(("target", "target_ns", "target_interval", "target_throughput"))
    of = {"target": "makespan", "target_ns": "latency_ns"}.get(name, "interval_ns")
    wanted = float(random.choice(np.unique(values[of])[: random.choice((2, 10, 10**6))].tolist()))
    if random.random() < 0.2:
        wanted = float(values[of].min()) - 1 if name == "target" else float(values[of].min()) * 0.999
    if wanted < 1 and name == "target":
        wanted = 1.0
    given: Any = {"target": int(wanted), "target_interval": f"{wanted!r}ns"}.get(name, wanted)
    if name == "target_throughput":
        given = 1e9 / wanted
    return _optimized(drawn, {name: given}, values[of] <= wanted * (1 + SAME), folder, work)


def _ask_limit(drawn: Drawn, random: Random, folder: Path, work: int) -> str:
    """One or two limits of other quantities that some allocation has, or nearly."""
    values, hardware = drawn.every.quantities, drawn.machine.hardware
    names = [name for name in LIMITED if hardware.energy is not None or name.endswith("_ns")]
    names = [name for name in names if name != "area_um2" or drawn.at_most_um2 is None]
    mask, limits = np.ones(len(drawn.every.rows), dtype=np.bool_), {}
    for name in random.sample(names, random.randint(1, 2)):
        of = values[LIMITED[name]]
        limits[name] = float(random.choice(np.unique(of).tolist())) * random.choice((1.0, 1.0, 1.0, 0.999))
        if limits[name] <= 0:
            del limits[name]
            continue
        mask &= of <= limits[name] * (1 + SAME)
    asked: dict[str, Any] = {"at_most": limits}
    if random.random() < 0.25:
        makespans = np.unique(values["makespan"][mask if mask.any() else ~mask]).tolist()
        asked["target"] = int(random.choice(makespans))
        mask &= values["makespan"] <= asked["target"]
    else:
        asked["objective"] = _objective(drawn, random)
    return _optimized(drawn, asked, mask, folder, work)


def _ask_front(drawn: Drawn, random: Random, folder: Path, work: int) -> str:
    return _front(drawn, {}, np.ones(len(drawn.every.rows), dtype=np.bool_), random, folder, work)


QUESTIONS: dict[str, Callable[[Drawn, Random, Path, int], str]] = {
    "objective": _ask_objective,
    "target": _ask_target,
    "limit": _ask_limit,
    "hold": _ask_hold,
    "front": _ask_front,
}


def _optimized(drawn: Drawn, asked: Mapping[str, Any], mask: Mask, folder: Path, work: int) -> str:
    """Call `optimize` and judge its answer; mask: the allocations that are allowed."""
    options = drawn.options(folder)
    options |= dict(asked) | {"at_most": options.get("at_most", {}) | asked.get("at_most", {})}
    try:
        found = rramalloc.optimize(drawn.machine.network, drawn.arrays, work=work, progress=False, **options)
    except RramallocError as error:
        return _judge_refusal(drawn, asked, mask, error)
    except Exception as error:
        raise WrongAnswerError(f"{asked}: internal error {error!r}") from error
    row = _row_of(drawn.every, found)
    values = {name: float(column[row]) for name, column in drawn.every.quantities.items()}
    _same(asked, "makespan", found.makespan, values["makespan"])
    _same(asked, "latency_ns", found.latency_ns, values["latency_ns"])
    _same(asked, "arrays", found.arrays.used, values["arrays"])
    if found.energy_pj is not None:
        _same(asked, "energy", found.energy_pj, values["energy"])
    if not mask[row]:
        raise WrongAnswerError(f"{asked}: the answer breaks a limit: {values}")
    of, column = _objective_column(drawn, asked)
    best, value = float(column[mask].min()), float(column[row])
    factor = (found.unit_ns or 1.0) if found.objective_unit in ("steps", "ticks") else 1.0
    _same(asked, of, found.objective_value * factor, value)
    bound = found.lower_bound * factor
    if bound > best * (1 + SAME):
        raise WrongAnswerError(f"{asked}: bound {bound} of {of}, yet there is {best}: {found.proof}")
    proven = found.status == "optimal" or found.gap == 0 or found.proof.startswith("proven optimal")
    if not proven:
        return "bounded, best" if value <= best * (1 + SAME) else "bounded"
    if value > best * (1 + SAME):
        raise WrongAnswerError(f"{asked}: {value} of {of} called optimal, yet there is {best}: {found.proof}")
    equal = mask & (column <= value * (1 + SAME))
    if of == "interval_ns":
        latency_ns = drawn.every.quantities["latency_ns"]
        if values["latency_ns"] > latency_ns[equal].min() * (1 + SAME):
            return "optimal, not the least latency"
        equal &= latency_ns <= values["latency_ns"] * (1 + SAME)
    if float(drawn.cost[row]) > float(drawn.cost[equal].min()) * (1 + SAME):
        if "no other is as" in found.proof:
            raise WrongAnswerError(f"{asked}: another one is as good with fewer arrays: {found.proof}")
        return "optimal, not the fewest arrays"
    return "optimal"


def _same(asked: Mapping[str, Any], name: str, said: float | None, right: float) -> None:
    if said is None or not math.isclose(said, right, rel_tol=SAME, abs_tol=1e-12):
        raise WrongAnswerError(f"{asked}: {name} of the answer is said to be {said}, right is {right}")


def _objective_column(drawn: Drawn, asked: Mapping[str, Any]) -> tuple[str, Columns]:
    """Return what a call minimises, times in ns, and its value for every allocation."""
    values = drawn.every.quantities
    if any(name.startswith("target") for name in asked):
        return "arrays", drawn.cost
    name = VALUES[asked["objective"]]
    if inputs := asked.get("inputs", 1) - 1:
        return "stream", values[name] + inputs * values["interval_ns"]
    return name, values[name]


def _row_of(every: Everything, found: rramalloc.Allocation) -> int:
    """Return the number of an answer among all allocations. Raises WrongAnswerError if it is none of them."""
    layers, numbers = {layer.name: layer for layer in found.layers}, list[int]()
    kinds = [kind.name for kind in every.machine.hardware.kinds or ()]
    for stage, modes in zip(every.machine.stages, every.modes, strict=True):
        layer = layers[stage.name]
        kind = kinds.index(layer.kind) if layer.kind is not None else 0
        bits = found.bits.get(stage.name) if stage.name in every.machine.bits else modes[0].bits
        block = layer.block or modes[0].block
        own = [at for at, mode in enumerate(modes) if (mode.kind, mode.bits, mode.block, mode.copies)
               == (kind, bits, tuple(block), layer.copies)]  # fmt: skip
        if not own:
            raise WrongAnswerError(f"layer {stage.name}: no such mode: {layer}")
        numbers.append(own[0])
    rows = np.flatnonzero((every.rows == np.array(numbers)).all(axis=1))
    if not len(rows):
        raise WrongAnswerError(f"outside of the problem: {found.allocation}")
    return int(rows[0])


def _judge_refusal(drawn: Drawn, asked: Mapping[str, Any], mask: Mask, error: RramallocError) -> str:
    """Return how a refusal ended. Raises WrongAnswerError for one that is not right."""
    words, values = f"{asked}: {type(error).__name__}: {error}", drawn.every.quantities
    if isinstance(error, TargetError):
        of = "interval" if error.goal in ("interval", "throughput") else "makespan"
        column = values[of] if error.unit in ("steps", "ticks") else values[
            "latency_ns" if of == "makespan" else "interval_ns"
        ]  # fmt: skip
        best = float(column.min())
        bound = 1e9 / error.bound if error.unit == "inputs/s" and error.bound else error.bound
        if bound > best * (1 + SAME):
            raise WrongAnswerError(f"{words}; there is {best}")
    if isinstance(error, LimitError) and error.proven and error.quantity in asked.get("at_most", {}):
        others = np.ones(len(mask), dtype=np.bool_)
        for name, limit in asked.get("at_most", {}).items():
            if name != error.quantity:
                others &= values[LIMITED[name]] <= limit * (1 + SAME)
        if others.any() and error.least > (1 + SAME) * (
            least := float(values[LIMITED[error.quantity]][others].min())
        ):
            raise WrongAnswerError(f"{words}; there is {least}")
    if drawn.machine.bits and "chooses the bits of layers, which objective 'sequential'" in words:
        return "refused by name"
    if not mask.any():
        return "refused"
    if isinstance(error, TargetError | LimitError) and not error.proven:
        return "not found"
    raise WrongAnswerError(f"{words}; {int(mask.sum())} allocations are allowed")


FRONTS = ("makespan", "latency_ns", "interval", "energy", "edp", "area")


def _front(
    drawn: Drawn, asked: Mapping[str, Any], mask: Mask, random: Random, folder: Path, work: int
) -> str:
    """Call `pareto` for two quantities and judge its points."""
    options, hardware = drawn.options(folder), drawn.machine.hardware
    names = [name for name in FRONTS if hardware.energy is not None or name not in ("energy", "edp", "area")]
    along = random.choice([name for name in names if name != "area" or not drawn.by_area])
    others = [name for name in names if name.removesuffix("_ns") != along and name != "makespan"]
    against = random.choice(["arrays", "arrays", *(name for name in others if name != along)])
    held = {name: value for name, value in asked.items() if name != "objective"}
    words = f"pareto of {along} against {against}, {held}"
    try:
        front = rramalloc.pareto(
            drawn.machine.network, drawn.arrays, objective=along, against=against, work=work, progress=False,
            **options, **held,
        )  # fmt: skip
    except TypeError as error:
        if drawn.machine.bits and "unexpected keyword argument" in str(error):
            return "refused by name"
        raise WrongAnswerError(f"{words}: internal error {error!r}") from error
    except RramallocError as error:
        if mask.any():
            raise WrongAnswerError(f"{words}: {type(error).__name__}: {error}") from error
        return "refused"
    except Exception as error:
        raise WrongAnswerError(f"{words}: internal error {error!r}") from error
    values = drawn.every.quantities | {"arrays": drawn.cost}
    x, y = (
        values["interval_ns" if name == "interval" and unit == "ns" else name][mask]
        for name, unit in ((against, front.against_unit), (along, front.unit))
    )
    return _judge_front(words, front, x, y)


def _judge_front(words: str, front: rramalloc.ParetoFront, x: Columns, y: Columns) -> str:
    points = [(float(point.across), float(point.value)) for point in front.points]
    for point, after in pairwise(points):
        if not (point[0] < after[0] and point[1] > after[1]):
            raise WrongAnswerError(f"{words}: {point} and {after} are not in order")
    ends = [at for at, _ in points[1:]] + [math.inf]
    for shown, point, end in zip(front.points, points, ends, strict=True):
        if not ((np.abs(x - point[0]) <= SAME * point[0]) & (np.abs(y - point[1]) <= SAME * point[1])).any():
            raise WrongAnswerError(f"{words}: {point} is no allocation's")
        least = float(y[x < end * (1 - SAME)].min())
        if shown.lower_bound > least * (1 + SAME):
            raise WrongAnswerError(f"{words}: {point} has bound {shown.lower_bound}, yet there is {least}")
        same = x <= point[0] * (1 + SAME)
        fewer = x < point[0] * (1 - SAME)
        if shown.proven and (
            y[same].min() < point[1] * (1 - SAME) or (fewer.any() and y[fewer].min() <= point[1] * (1 + SAME))
        ):
            raise WrongAnswerError(f"{words}: {point} is called proven and another one dominates it")
    if front.proven < len(points):
        return "bounded"
    if float(x.min()) < points[0][0] * (1 - SAME):
        raise WrongAnswerError(f"{words}: all proven, and the front begins at {points[0]}, not at {x.min()}")
    return "optimal"
