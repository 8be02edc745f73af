"""MappingOptions: everything that decides which layers become stages and how their weights lie on arrays."""

from __future__ import annotations

from typing import Literal, Self, cast

from pydantic import Field, model_validator

from rramalloc.choices import FC_CHOICES, MAPPINGS, FullyConnected, Mapping
from rramalloc.errors import SpecError
from rramalloc.records import Record, check_known, fault

_FOLDED: Mapping = "kernel_split"
"""The mapping under which filters can be folded."""


class MappingOptions(Record):
    """Layout of a network on crossbars; the options in result files extend it.

    mapping: of the weights of one copy (docs/sources/model.md 3); fc: whether linear layers on a 1 x 1 grid
    are left to the host, untimed, or become stages; fold: fold every filter for the fewest arrays first,
    which needs mapping "kernel_split" (docs/sources/companions.md 3); shared: what files of earlier versions
    say of weights that several layers use, which are stored for each of them.
    """

    mapping: Mapping = "im2col"
    fc: FullyConnected = "host"
    fold: bool = False
    shared: Literal["copies"] = Field("copies", exclude=True)

    @model_validator(mode="after")
    def _foldable(self) -> Self:
        if self.fold and self.mapping != _FOLDED:
            raise fault(f"fold {_why_not(self.mapping)}")
        return self

    def changed(
        self, *, mapping: str | None = None, fc: str | None = None, fold: bool | None = None
    ) -> MappingOptions:
        """Return the mapping, fc and fold of these options, with those replaced that are not None.

        Unless asked for, a fold ends with the mapping that it needs. Raises SpecError, UnknownNameError.
        """
        mapping, fc = mapping or self.mapping, fc or self.fc
        check_known("mapping", mapping, MAPPINGS)
        check_known("fc", fc, FC_CHOICES)
        if fold and mapping != _FOLDED:
            raise SpecError("fold", _why_not(mapping))
        folded = (self.fold and mapping == _FOLDED) if fold is None else fold
        return MappingOptions(mapping=cast("Mapping", mapping), fc=cast("FullyConnected", fc), fold=folded)


def _why_not(mapping: str) -> str:
    what = f"moves pixels of the kernel onto wordlines, which mapping {mapping!r} already does"
    return f"{what}: use {_FOLDED!r} to fold, or do without"


DEFAULT_MAPPING = MappingOptions()
"""Defaults of a user who says nothing else."""
