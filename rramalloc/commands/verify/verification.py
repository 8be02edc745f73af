"""Verification: the result of computing a network through its placed arrays."""

from __future__ import annotations

import operator
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat

from rramalloc.allocation.allocation import NetworkId
from rramalloc.choices import Mapping
from rramalloc.network.node import Name
from rramalloc.records import Record, absent
from rramalloc.result import AnswerRecord
from rramalloc.units import counted, one_line

FORMAT: Literal["rramalloc-verification/2"] = "rramalloc-verification/2"
Index = Annotated[int, Field(ge=0)]


class Difference(Record):
    """The first value that differs from the reference. layer: any node; position: channel, row, column."""

    image: Index
    layer: Name
    position: tuple[Index, Index, Index]
    expected: int
    got: int

    def __str__(self) -> str:
        channel, row, column = self.position
        return (
            f"different: image {self.image}, layer {self.layer!r}, channel {channel}, row {row}, "
            f"column {column}: expected {self.expected}, got {self.got}"
        )


class VerifiedLayer(Record):
    """One layer with weights, its sums before they are brought back to the width of a tensor.

    computed: on arrays or on the host; weights: of the file, or random; values: compared, over all images;
    shift: bits that sums are shifted right; relative_error: of the sums, root of the sum of squares of what
    differs over that of what is expected; worst: the largest difference of one value.
    """

    name: Name
    computed: Literal["arrays", "host"]
    copies: Index
    arrays: Index
    weights: Literal["file", "random"]
    values: Index
    shift: Index
    relative_error: NonNegativeFloat
    worst: Index


class VerificationOptions(Record):
    """Options of the computation. placed: by a placement given, by the placer, or block after block.

    dac_bits: input bits per read, None where inputs are taken whole because nothing is lost.
    """

    mapping: Mapping
    fc: Literal["host", "crossbar"]
    host: tuple[Name, ...] = Field((), exclude_if=operator.not_)
    placed: Literal["given", "placer", "in order"]
    seed: int
    images: Annotated[int, Field(ge=1)]
    adc_bits: int | None
    dac_bits: int | None
    noise: NonNegativeFloat


class Verification(AnswerRecord):
    """Whether the placed accelerator computes what the reference computes; `rramalloc-verification/2`.

    verdict: "equal": every value of every node is; "different": see `difference`; "approximate": converters
    or noise were asked for, and they change values. makespan: of the allocation, in steps, or in ticks where
    layers have their own clocks; every window was read when its inputs were there; tick_ns: of them, None if
    it is in steps or not known; not_counted: what that time leaves out. hardware: its name, set_values: as in
    Hardware; arrays: programmed; values: compared, over all nodes; layers: up to the first difference.
    """

    rows_in = "layers"

    format: Literal["rramalloc-verification/2"] = FORMAT
    network: NetworkId
    hardware: str
    set_values: tuple[str, ...] | None = Field(None, exclude_if=absent)
    options: VerificationOptions
    verdict: Literal["equal", "different", "approximate"]
    difference: Difference | None
    makespan: Index
    tick_ns: NonNegativeFloat | None = None
    arrays: Index
    values: Index
    layers: tuple[VerifiedLayer, ...]

    def _headline(self) -> tuple[str, str]:
        verdict = str(self.difference) if self.difference is not None else self.verdict
        arrays = f"{counted(self.arrays, 'array')} of {one_line(self.hardware, 60)}"
        computed = f"{counted(self.values, 'value')} on {arrays}"
        unit = "step" if self.tick_ns is None else "tick"
        return self.network.name, f"{verdict}; {computed}, in {counted(self.makespan, unit)}"
