"""MappingOptions: everything that decides which layers become stages and how their weights lie on arrays."""

from __future__ import annotations

import operator
from collections.abc import Collection
from itertools import chain
from typing import Annotated, Literal, Self, cast

from pydantic import Field, model_validator

from rramalloc.choices import FC_CHOICES, MAPPINGS, FullyConnected, HostLike, Mapping
from rramalloc.errors import SpecError
from rramalloc.network.counts import weights
from rramalloc.network.network import MAX_NODES, Network, names_like
from rramalloc.network.node import Name, Stage
from rramalloc.records import Record, check_known, fault, from_list
from rramalloc.units import counted, share

_FOLDED: Mapping = "kernel_split"
"""The mapping under which filters can be folded."""
_LARGE = 100
"""Times the weights of a convolution that linear layers left to the host must have for a note: then less than
1 % of the weights are on arrays."""
MOST_PATTERNS = 100
"""Limit of patterns in --host: it bounds the time to match them with the names of all layers."""


class MappingOptions(Record):
    """Layout of a network on crossbars; the options in result files extend it.

    mapping: of the weights of one copy (docs/sources/model.md 3); fc: whether linear layers on a 1 x 1 grid
    are left to the host, untimed, or become stages; host: other layers that are left to it, by name or
    pattern (docs/sources/model.md 2); fold: fold every filter for the fewest arrays first, which needs
    mapping "kernel_split" (docs/sources/companions.md 3); shared: what files of earlier versions say of
    weights that several layers use, which are stored for each of them.
    """

    mapping: Mapping = "im2col"
    fc: FullyConnected = "host"
    host: Annotated[
        tuple[Name, ...],
        from_list(list[Name]),
        Field(max_length=MAX_NODES, exclude_if=operator.not_),
    ] = ()
    fold: bool = False
    shared: Literal["copies"] = Field("copies", exclude=True)

    @model_validator(mode="after")
    def _foldable(self) -> Self:
        if self.fold and self.mapping != _FOLDED:
            raise fault("fold " + _why_no_fold(self.mapping))
        return self

    def changed(
        self,
        *,
        mapping: str | None = None,
        fc: str | None = None,
        fold: bool | None = None,
        host: HostLike | None = None,
    ) -> MappingOptions:
        """Return these options with every argument that is not None in place of its field.

        Another mapping than the one that a fold needs ends it, unless `fold` asks for it.
        Raises SpecError, UnknownNameError.
        """
        mapping, fc = mapping or self.mapping, fc or self.fc
        check_known("mapping", mapping, MAPPINGS)
        check_known("fc", fc, FC_CHOICES)
        if fold and mapping != _FOLDED:
            raise SpecError("fold", _why_no_fold(mapping))
        folded = (self.fold and mapping == _FOLDED) if fold is None else fold
        if host is None:
            host = self.host
        return MappingOptions(
            mapping=cast("Mapping", mapping),
            fc=cast("FullyConnected", fc),
            host=tuple(dict.fromkeys([host] if isinstance(host, str) else host)),
            fold=folded,
        )

    def hosted(self, network: Network) -> Collection[str]:
        """Return the layers of a network that `host` names, also of those that no stage stands for.

        Raises SpecError for a name that none has.
        """
        if not self.host:
            return ()
        left_out = [item for item in network.approximations if "is left out" in item.treatment]
        layers = {layer.name for layer in (*network.stages, *network.unmodelled, *left_out)}
        if sum(pattern not in layers for pattern in self.host) > MOST_PATTERNS:
            raise SpecError("host", f"has more than {MOST_PATTERNS} patterns: name the layers themselves")
        matched = (names_like("host", pattern, layers, "weight layer") for pattern in self.host)
        return set(chain.from_iterable(matched))

    def left_out(self, network: Network) -> list[Stage]:
        """Return the layers that `host` names and that are no classifiers. Raises SpecError."""
        hosted = self.hosted(network)
        left = (stage for stage in network.stages if stage.name in hosted)
        return [stage for stage in left if not network.is_classifier(stage)]

    def host_notes(self, network: Network) -> tuple[str, ...]:
        """Return a note if `fc` leaves nearly all weights of a network to the host, else nothing.

        Nearly all: every stage on a grid larger than 1 x 1 has less than 1 % of the weights of these linear
        layers, as in a decode step with one small convolution. Source: docs/sources/model.md 2.
        """
        timed, hosted = self.timed_stages(network), self.hosted(network)
        named = {*hosted, *(stage.name for stage in timed)}
        left = [stage for stage in network.stages if stage.name not in named]
        theirs = sum(weights(network, stage) for stage in left)
        on_grids = [weights(network, stage) for stage in timed if network.shapes[stage.name].pixels > 1]
        if not left or _LARGE * max(on_grids, default=0) >= theirs:
            return ()
        of_all = share(theirs / sum(weights(network, stage) for stage in network.stages))
        layers = f"{counted(len(left), 'linear layer')} on a single pixel with {of_all} of the weights"
        return (f"{layers}: left to the host by default, --fc crossbar puts them on arrays",)

    def naming(self, network: Network) -> MappingOptions:
        """Return the options with the patterns of `host` replaced by the layers that they match."""
        hosted, layers = self.hosted(network), (*network.stages, *network.unmodelled)
        return self.changed(host=[layer.name for layer in layers if layer.name in hosted])

    def of_part(self, network: Network) -> MappingOptions:
        """Return the options of a part of their network: `host` without patterns and layers that it lacks."""
        there = {layer.name for layer in (*network.stages, *network.unmodelled)}
        return self.changed(host=[name for name in self.host if name in there])

    def timed_stages(self, network: Network) -> tuple[Stage, ...]:
        """Return the weight layers that become stages, in network order.

        The host computes the layers that `host` names and, unless `fc` is "crossbar" or all weight layers
        are such, linear layers on a 1 x 1 grid. Raises SpecError as `hosted`.
        Source: docs/sources/model.md 2.
        """
        every, hosted = self.fc == "crossbar" or network.only_classifiers, self.hosted(network)
        return tuple(
            stage
            for stage in network.stages
            if (every or not network.is_classifier(stage)) and stage.name not in hosted
        )


def _why_no_fold(mapping: str) -> str:
    """Return the reason why only mapping "kernel_split" can fold."""
    what = f"moves pixels of the kernel onto wordlines, which mapping {mapping!r} already does"
    return f"{what}: use {_FOLDED!r} to fold, or do without"


DEFAULT_MAPPING = MappingOptions()
"""Options of a call that gives none."""
