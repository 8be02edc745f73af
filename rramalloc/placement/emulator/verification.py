"""Verification: what came of computing a network through its placed arrays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from rramalloc.files import write_json
from rramalloc.mapping.options import Mapping
from rramalloc.network.node import Name
from rramalloc.records import Record
from rramalloc.results.allocation import NetworkId
from rramalloc.shown import Shown, counted, one_line

if TYPE_CHECKING:
    import pandas as pd

FORMAT: Literal["rramalloc-verification/1"] = "rramalloc-verification/1"
Index = Annotated[int, Field(ge=0)]
NonNegative = Annotated[float, Field(ge=0)]


class Difference(Record):
    """The first value that is not as it should be. layer: any node; position: channel, row, column."""

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

    computed: on arrays or on the host; weights: of the file, or random; reference: the ONNX evaluator, or the
    direct convolution that replaces it where it is too slow; values: compared, over all images; shift: bits
    that sums are shifted right; relative_error: of the sums, root of the sum of squares of what differs over
    that of what is expected; worst: the largest difference of one value.
    """

    name: Name
    computed: Literal["arrays", "host"]
    replication: Index
    arrays: Index
    weights: Literal["file", "random"]
    reference: Literal["onnx", "direct"]
    values: Index
    shift: Index
    relative_error: NonNegative
    worst: Index


class VerificationOptions(Record):
    """How it was computed. placed: by a placement given, by the placer, or block after block.

    dac_bits: input bits per read, None where inputs are taken whole because nothing is lost.
    """

    mapping: Mapping
    fc: Literal["host", "crossbar"]
    placed: Literal["given", "placer", "in order"]
    seed: int
    images: Annotated[int, Field(ge=1)]
    adc_bits: int | None
    dac_bits: int | None
    noise: NonNegative


class Verification(Shown, Record):
    """Whether the placed accelerator computes what the reference computes; `rramalloc-verification/1`.

    verdict: "equal": every value of every node is; "different": see `difference`; "approximate": converters
    or noise were asked for, and they change values. arrays: programmed; values: compared, over all nodes;
    layers: up to the first difference.
    """

    format: Literal["rramalloc-verification/1"] = FORMAT
    rramalloc_version: str
    network: NetworkId
    hardware: str
    options: VerificationOptions
    verdict: Literal["equal", "different", "approximate"]
    difference: Difference | None
    arrays: Index
    values: Index
    layers: tuple[VerifiedLayer, ...]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The document of the verification file."""
        return self.model_dump(mode="json")

    def to_frame(self) -> pd.DataFrame:
        """One row per layer, columns as the fields of VerifiedLayer."""
        import pandas as pd

        columns = list(VerifiedLayer.model_fields)
        return pd.DataFrame([layer.model_dump() for layer in self.layers], columns=columns)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the verification as JSON, whole or not at all. Raises FileError."""
        write_json(path, self.to_dict())

    def _headline(self) -> tuple[str, str]:
        found = str(self.difference) if self.difference is not None else self.verdict
        arrays = f"{counted(self.arrays, 'array')} of {one_line(self.hardware, 60)}"
        computed = f"{counted(self.values, 'value')} on {arrays}"
        return self.network.name, f"{found}; {computed}"
