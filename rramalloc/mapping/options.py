"""MappingOptions: everything that decides which layers become stages and how their weights lie on arrays."""

from __future__ import annotations

from typing import Self, cast

from pydantic import model_validator

from rramalloc.choices import FC_CHOICES, MAPPINGS, SHARED_CHOICES, FullyConnected, Mapping, SharedWeights
from rramalloc.errors import SpecError
from rramalloc.records import Record, check_known, fault


class MappingOptions(Record):
    """How a network is laid on crossbars; the options in result files extend it.

    Parameters
    ----------
    mapping
        Layout of the weights of one copy (docs/sources/model.md 3).
    fc
        Whether linear layers on a 1 x 1 grid are left to the host, untimed, or become stages.
    fold
        Fold every filter for the fewest arrays first, which needs mapping "kernel_split"
        (docs/sources/companions.md 3).
    shared
        Whether weights that several layers use are stored for each of them ("copies"), or once: then these
        layers run one after another on the same arrays (docs/sources/model.md 14).
    """

    mapping: Mapping = "im2col"
    fc: FullyConnected = "host"
    fold: bool = False
    shared: SharedWeights = "copies"

    @model_validator(mode="after")
    def _foldable(self) -> Self:
        for name, refusal in (
            ("fold", _fold_refusal(self.mapping) if self.fold else None),
            ("shared", _shared_refusal(self.mapping, self.shared)),
        ):
            if refusal is not None:
                raise fault(f"{name} {refusal}")
        return self

    def changed(
        self,
        *,
        mapping: str | None = None,
        fc: str | None = None,
        fold: bool | None = None,
        shared: str | None = None,
    ) -> MappingOptions:
        """The mapping, fc, fold and shared of these options, with those replaced that are not None.

        Unless asked for, a fold ends with the mapping that it needs. Raises SpecError, UnknownNameError.
        """
        mapping, fc = mapping or self.mapping, fc or self.fc
        check_known("mapping", mapping, MAPPINGS)
        check_known("fc", fc, FC_CHOICES)
        shared = shared or self.shared
        check_known("shared", shared, SHARED_CHOICES)
        if (reason := _shared_refusal(mapping, shared)) is not None:
            raise SpecError("shared", reason)
        refusal = _fold_refusal(mapping)
        if fold and refusal is not None:
            raise SpecError("fold", refusal)
        folded = (self.fold and refusal is None) if fold is None else fold
        return MappingOptions(
            mapping=cast("Mapping", mapping),
            fc=cast("FullyConnected", fc),
            fold=folded,
            shared=cast("SharedWeights", shared),
        )


def _fold_refusal(mapping: str) -> str | None:
    """Why filters cannot be folded under a mapping, None if they can."""
    if mapping == "kernel_split":
        return None
    return (
        f"moves pixels of the kernel onto wordlines, which mapping {mapping!r} already does: "
        f"use 'kernel_split' to fold, or do without"
    )


def _shared_refusal(mapping: str, shared: str) -> str | None:
    """Why shared weights cannot be stored so under a mapping, None if they can."""
    if shared == "once" and mapping == "sdk":
        return 'must be "copies" with mapping "sdk", whose layers have their own blocks'
    return None


DEFAULT_MAPPING = MappingOptions()
"""What holds unless the user says otherwise."""
