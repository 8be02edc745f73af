"""Models read from ONNX and from PyTorch: both must agree with each other and with PyTorch's own counters.

Needs torch, torchvision, timm and transformers; models have random weights.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from pages import TIMED, Study, markdown

from rramalloc.errors import RramallocError
from rramalloc.importers import load
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.coverage import Coverage
from rramalloc.network.network import Network
from rramalloc.timing.simulate import simulate
from rramalloc.timing.stage_graph import StageGraph

PACKAGES = ("torch", "torchvision", "timm", "transformers")
MODELS = (
    "alexnet",
    "squeezenet1_1",
    "resnet18",
    "resnext50_32x4d",
    "regnet_y_400mf",
    "densenet121",
    "googlenet",
    "inception_v3",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "shufflenet_v2_x0_5",
    "mnasnet0_5",
    "efficientnet_b0",
    "convnext_tiny",
    "vit",
    "swin_t",
    "swin_v2_t",
    "deeplabv3_mobilenet",
    "lraspp_mobilenet",
    "mixer_s32",
    "poolformer_s12",
    "ghostnet_050",
    "hrnet_w18_small",
    "dcgan",
    "unet",
    "espcn",
    "wavenet",
    "siamese",
    "focus",
    "frames_mean",
    "spiking",
    "videomae",
    "timesformer",
    "vivit",
    "bert",
)
"""Of results/models.py."""


@dataclass(frozen=True)
class Read:
    """What became of a model.

    beforehand: weights and MACs of layers on constants; images: most of a node; error: of a refusal.
    """

    stages: int = 0
    weights: int = 0
    macs: int = 0
    beforehand: tuple[int, int] = (0, 0)
    barriers: int = 0
    steps: int = 0
    images: int = 1
    error: str = ""

    @classmethod
    def of(cls, read: Callable[[], Network]) -> Read:
        """Figures of a network, or the error of reading it."""
        try:
            network = read()
        except RramallocError as error:
            return cls(error=str(error))
        graph = StageGraph.build(network, MappingOptions(fc="crossbar"))
        coverage = Coverage.of(network, graph.names)
        return cls(
            stages=len(graph.names),
            weights=coverage.weights.on_arrays,
            macs=coverage.macs.on_arrays,
            beforehand=(
                sum(item.weights for item in coverage.precomputed),
                sum(item.macs or 0 for item in coverage.precomputed),
            ),
            barriers=len(coverage.barriers),
            images=max(shape.images for shape in network.shapes.values()),
            steps=simulate(graph, np.ones(len(graph.names), dtype=np.int64)).makespan,
        )


@dataclass(frozen=True)
class Row:
    """A model: transformer blocks in it, what both importers read, and PyTorch's counts.

    beforehand_*: of layers on constants; images*: most that a node computes through the same weights;
    refused: why it was not read.
    """

    model: str
    blocks: int
    stages: int
    weights: int
    macs: int
    beforehand_weights: int
    beforehand_macs: int
    agrees: bool
    barriers: int
    barriers_torch: int
    steps: int
    steps_torch: int
    images: int
    images_torch: int
    refused: str


def run(name: str) -> list[Row]:
    """Export a model and read it from both sides."""
    import models

    from rramalloc.importers.torch import from_torch

    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        counts, program = models.exported(name, path)
        onnx, other = Read.of(lambda: load(path)), Read.of(lambda: from_torch(program))
    row = Row(
        name, models.MODELS[name].blocks, onnx.stages, onnx.weights, onnx.macs, *other.beforehand,
        agrees(counts, onnx, other), onnx.barriers, other.barriers, onnx.steps, other.steps,
        onnx.images, other.images, onnx.error or other.error,
    )  # fmt: skip
    return [row]


def agrees(counts: tuple[int, int], onnx: Read, torch_: Read) -> bool:
    """Whether all weights and MACs of the counters are on arrays or computed beforehand, from both sides."""
    weights, macs = torch_.beforehand
    same = (onnx.weights, onnx.macs, onnx.stages) == (torch_.weights, torch_.macs, torch_.stages)
    return same and (torch_.weights + weights, torch_.macs + macs) == counts


def missing() -> str:
    """Return what is not installed."""
    absent = [name for name in PACKAGES if find_spec(name) is None]
    return f"{', '.join(absent)} not installed" if absent else ""


def answer(rows: Sequence[Row]) -> str:
    """Return how many models agree."""
    equal = sum(row.agrees and not row.refused for row in rows)
    read = [row for row in rows if not row.refused]
    steps = sum((row.steps, row.images) == (row.steps_torch, row.images_torch) for row in read)
    several = sum(row.images > 1 for row in read)
    return (
        f"**{equal} of {len(rows)} models have the weights and MACs of PyTorch's counters from both "
        f"sides**, {steps} the "
        f"same steps and images; {several} of them compute several images through the same weights."
    )


NOTES = """\
Each model is exported by PyTorch (`torch.onnx.export` and `torch.export`), read from both files, and
compared with PyTorch's own counters: weights and multiply-accumulates of all layers with matrices, without
biases and tables. Steps: one copy of every stage, fully connected layers on the arrays. Barriers: nodes that
wait for all pixels of an input whose pixels come one by one. Images: most that a layer computes through the
same weights (frames of a video, time steps, tubelets in time). Transformer blocks are those of the model.
Weights are random.
"""


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is compared, the table, and what is exceptional."""
    yield NOTES
    heads = ["model", "stages", "weights", "MACs", "equal to the counters"]
    table = [[*heads, "barriers: ONNX", "PyTorch", "steps: ONNX", "PyTorch", "images"]]
    for row in rows:
        blocks = f" ({row.blocks} blocks)" if row.blocks else ""
        if row.refused:
            table.append([f"{row.model}{blocks}", f"refused: {row.refused}", *[""] * 8])
            continue
        counts = [f"{row.stages}", f"{row.weights:,}", f"{row.macs:,}", "yes" if row.agrees else "**no**"]
        waits = [str(row.barriers), str(row.barriers_torch), f"{row.steps:,}", f"{row.steps_torch:,}"]
        images = str(row.images) if row.images == row.images_torch else f"{row.images}, {row.images_torch}"
        table.append([f"{row.model}{blocks}", *counts, *waits, images])
    yield from markdown(table)
    weights, macs = sum(row.beforehand_weights for row in rows), sum(row.beforehand_macs for row in rows)
    yield from (
        f"- swin_v2_t: PyTorch's counters hold {weights:,} weights and {macs:,} MACs more, of the small",
        "  layers that compute the table of relative positions from constants. They are computed once",
        "  beforehand and take no arrays, as `inspect` says. PyTorch's exporter has computed a part of them.",
        "- poolformer_s12: its 24 normalisations are over the whole grid, each is one barrier.",
        "- mixer_s32: two barriers in each of its 8 blocks. Its layers over tokens read a channel of all",
        "  tokens at once, and the layers behind them read a token of all channels: both have to wait.",
    )


STUDY = Study(
    title="Models read from ONNX and from PyTorch",
    question="Are models read as PyTorch itself counts them?",
    row=Row,
    cases=[(name,) for name in MODELS],
    measure=run,
    answer=answer,
    body=body,
    decided_by=(*TIMED, "importers"),
    missing=missing,
)
