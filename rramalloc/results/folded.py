"""What `fold` tells, as it is shown: a filter or the layers of a network before and after folding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rramalloc.hardware.hardware import Hardware
from rramalloc.mapping.fold import UNFOLDED, Filter, Fold
from rramalloc.mapping.fold_rules import Rule
from rramalloc.mapping.options import Mapping
from rramalloc.network.geometry import Pair
from rramalloc.network.node import Name
from rramalloc.records import Record
from rramalloc.results.allocation import Count, NetworkId, Product
from rramalloc.shown import Shown, counted, frame_of

if TYPE_CHECKING:
    import pandas as pd

Shape = tuple[Count, Count, Count, Count]
Size = tuple[Count, Count]


class Folded(Record):
    """A filter before and after folding; filters are (C_o, K_h, K_w, C_i), C_i of one group.

    n_h, n_w: pixels folded into one; padding_added: zeros added to the kernel of a pair of channels;
    overlap: pixels that neighbouring windows of n share; exact: whether the result is provably the same.
    """

    filter_before: Shape
    stride_before: Size
    groups: Count
    n_h: Count
    n_w: Count
    filter: Shape
    stride: Size
    dilation: Size
    padding_added: int
    overlap: tuple[int, int]
    exact: bool

    @property
    def fold(self) -> Fold:
        """To fold real weights and inputs with. Raises SpecError for a dilated kernel."""
        outputs, high, wide, inputs = self.filter_before
        whole = Filter(
            outputs=outputs, kernel=(high, wide), inputs=inputs, stride=self.stride_before,
            dilation=(1, 1) if self.n_h * self.n_w > 1 else self.dilation, groups=self.groups,
        )  # fmt: skip
        size = (self.n_h, self.n_w)
        return Fold(filter=whole, size=size, inputs=self.filter[3] // (self.n_h * self.n_w))


class FilterFold(Shown, Folded):
    """A filter folded until it fills `align` input channels.

    n_total: n_h * n_w; output: height and width, None without an input; work_before, work_after:
    multiplications with channels raised to the alignment, for one input, or for one output pixel without an
    input; saving: 1 - after / before; checked: True if shown equal on random data, None if not tried.
    """

    format: Literal["rramalloc-fold/1"] = "rramalloc-fold/1"
    rule: Rule
    align: Count
    n_total: Count
    output: Size | None
    work_before: Product
    work_after: Product
    saving: float
    checked: bool | None

    def to_dict(self) -> dict[str, Any]:
        """The document that `fold --filter ... --format json` prints."""
        return self.model_dump(mode="json")

    def to_frame(self) -> pd.DataFrame:
        """One row, columns as the fields."""
        import pandas as pd

        return pd.DataFrame([self.model_dump()])

    def _headline(self) -> tuple[str, str]:
        before, after = (" x ".join(map(str, size)) for size in (self.filter_before, self.filter))
        return "", f"filter {before} folded to {after}, {self.saving:.2%} of the work saved"


class FoldedLayer(Folded):
    """A stage as it is folded for the fewest arrays; n_h = n_w = 1 if folding saves none.

    demand_before, demand_after: arrays of one copy; saving: 1 - after / before; reason: why it is not
    folded though it might, empty otherwise; checked: as in FilterFold.
    """

    name: Name
    demand_before: Count
    demand_after: Count
    saving: float
    checked: bool | None
    reason: str

    @property
    def size(self) -> Pair | None:
        """(n_h, n_w), None if the layer is left as it is."""
        return None if (self.n_h, self.n_w) == UNFOLDED else (self.n_h, self.n_w)


class NetworkFold(Shown, Record):
    """All stages of a network, in network order. demand_before, demand_after: arrays of one copy of each."""

    format: Literal["rramalloc-network-fold/1"] = "rramalloc-network-fold/1"
    network: NetworkId
    hardware: Hardware
    mapping: Mapping
    demand_before: Count
    demand_after: Count
    saving: float
    layers: tuple[FoldedLayer, ...]
    host: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The document that `fold NETWORK --format json` prints."""
        return self.model_dump(mode="json")

    def to_frame(self) -> pd.DataFrame:
        """One row per layer, columns as the fields of FoldedLayer."""
        import pandas as pd

        return pd.DataFrame([layer.model_dump() for layer in self.layers])

    def _headline(self) -> tuple[str, str]:
        return (
            self.network.name,
            f"{counted(self.demand_before, 'array')} before folding, {self.demand_after:,} after",
        )

    def _table(self) -> pd.DataFrame:
        columns = ("name", "filter_before", "n_h", "n_w", "filter", "demand_before", "demand_after", "saving")
        return frame_of(self.layers, (*columns, "reason"))
