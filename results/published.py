"""Published figures: for each, the one command that gives our number beside it, and why they differ.

Commands that `rramalloc` does not have are of this script:

python results/published.py chain FILE             ResNet-18 without its shortcuts, as network JSON
python results/published.py vw-sdk NETWORK LINES   cycles of the tables of VW-SDK
python results/published.py cim-aq NETWORK POLICY  seconds of CIM-AQ from its own files (RRAMALLOC_CIM_AQ)
python results/published.py copies NAME            arrays and steps of an allocation that others published
"""

from __future__ import annotations

import csv
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import bits
from pages import RESULTS, SEARCHED, Study, markdown

import rramalloc
from rramalloc.allocation.bit_policy import read_layers, read_policy
from rramalloc.files import write_json
from rramalloc.hardware.loader import load_hardware
from rramalloc.importers import load
from rramalloc.mapping.demand import Storage
from rramalloc.methods.sdk import cycles, square_block
from rramalloc.methods.vw_sdk import variable_window
from rramalloc.network.network import Network


@dataclass(frozen=True)
class Row:
    """A published figure and ours. column: of the command's table from which ours is."""

    source: str
    what: str
    published: str
    ours: str
    command: str
    column: str


class Figure(NamedTuple):
    """A figure. command: prints CSV; pick: its column, and the value of the first column named so, if any."""

    source: str
    what: str
    published: str
    command: str
    column: str
    method: str = ""


class Copies(NamedTuple):
    """An allocation that a published tool gives, copies of the convolutions in file order.

    slices: arrays of a group, one for each bit slice of the weights; classifiers are stored once if fc is
    "crossbar".
    """

    network: str
    lines: int
    fc: str
    slices: int
    copies: tuple[int, ...]


COPIES = {
    "todaes-alexnet": Copies("alexnet_todaes", 128, "host", 1, (106, 21, 7, 6, 6)),
    "todaes-vgg11": Copies("vgg11", 128, "host", 1, (200, 50, 13, 13, 4, 4, 1, 1)),
    "pimcomp-balance": Copies(
        "resnet18", 128, "crossbar", 1, (381, *[96] * 4, *[24] * 5, 6, 6, 6, 7, 6, *[2] * 5)
    ),
    "pimcomp-genetic": Copies(
        "resnet18", 128, "crossbar", 1, (514, 131, 131, 130, 131, *[33] * 5, 9, 9, 9, 8, 9, *[3] * 5)
    ),
    "pimsyn-alexnet": Copies("alexnet", 256, "crossbar", 8, (109, 27, 7, 6, 6)),
    "pimsyn-vgg16": Copies("vgg16", 256, "crossbar", 8, (203, 196, 52, 50, 14, 13, 13, 3, 3, 3, 1, 1, 1)),
}
TODAES = (
    ("AlexNet", "alexnet_todaes", 1024, 128, "113", "117"),
    ("AlexNet", "alexnet_todaes", 2048, 128, "49", "49"),
    ("VGG-A", "vgg11", 2048, 128, "329", "330"),
    ("VGG-A", "vgg11", 4096, 128, "162", "245"),
    ("VGG-E", "vgg19", 4096, 256, "201", "295"),
    ("VGG-E", "vgg19", 8192, 128, "280", "318"),
    ("VGG-E", "vgg19", 8192, 256, "112", "112"),
    ("ResNet-18", "chain.json", 4096, 128, "79", "101"),
)
"""Name, network, arrays, lines, steps by the published method and by copies in proportion to windows."""
IDENTICAL = ((512, 128, "1556.5"), (512, 256, "447.2"), (1024, 128, "783.6"), (1024, 256, "224.2"),
             (2048, 128, "391.1"), (2048, 256, "114.3"))  # fmt: skip
"""Arrays, lines and published steps of AlexNet with as many copies of every layer."""
LAYERS: Mapping[str, Sequence[tuple[int, int, int, int]]] = {
    "resnet18": ((112, 7, 3, 64), (56, 3, 64, 64), (28, 3, 128, 128), (14, 3, 256, 256), (7, 3, 512, 512)),
    "vgg13": (
        (224, 3, 3, 64), (224, 3, 64, 64), (112, 3, 64, 128), (112, 3, 128, 128), (56, 3, 128, 256),
        (56, 3, 256, 256), (28, 3, 256, 512), (28, 3, 512, 512), (14, 3, 512, 512), (14, 3, 512, 512),
    ),
}  # fmt: skip
"""Layers of VW-SDK's tables: image, kernel, channels in and out; square, no padding, stride 1."""
VW_SDK = (
    ("resnet18", 512, "20041", "7240", "4294"),
    ("resnet18", 256, "25560", "17133", "10287"),
    ("vgg13", 512, "243736", "114697", "77102"),
    ("vgg13", 256, "381632", "344669", "215851"),
)
"""Network, lines, and cycles without windows, with square and with variable ones."""
CIM_AQ = (("resnet18", "INT8", "1.5075"), ("resnet18", "1 %", "0.9988"), ("resnet18", "5 %", "0.6349"),
          ("resnet18", "10 %", "0.5576"), ("vgg16", "INT8", "12.3946"), ("vgg16", "5 %", "4.9936"),
          ("vit_b32", "INT8", "3.4611"), ("vit_b32", "5 %", "1.5729"))  # fmt: skip
OWN = "python results/published.py"


def figures() -> Iterator[Figure]:
    """All figures, by source."""
    for name, network, arrays, lines, ours, proportional in TODAES:
        command = f"rramalloc compare {network} --arrays {arrays} --crossbar {lines}x{lines} --format csv "
        command += "--methods auto,published,proportional"
        if network == "chain.json":
            command = f"{OWN} chain chain.json && {command}"
        what = f"{name}, {arrays} arrays of {lines} x {lines}"
        yield Figure("TODAES", f"{what}, its method", ours, command, "published", "published")
        yield Figure("TODAES", f"{what}, proportional", proportional, command, "published", "proportional")
    for arrays, lines, steps in IDENTICAL:
        command = (
            f"rramalloc compare alexnet_todaes --arrays {arrays} --crossbar {lines}x{lines} --format csv "
        )
        what = f"AlexNet, {arrays} arrays of {lines} x {lines}, copies alike"
        yield Figure("TODAES", what, steps, f"{command}--methods uniform", "published", "uniform")
    for name, what in (("todaes-alexnet", "AlexNet"), ("todaes-vgg11", "VGG-A")):
        what = f"{what}, arrays that its copies for 2304 take"
        yield Figure("TODAES", what, "2304", f"{OWN} copies {name}", "arrays")
    for network, lines, *cycles_of in VW_SDK:
        command = f"{OWN} vw-sdk {network} {lines}"
        for column, each in zip(("im2col", "sdk", "vw-sdk"), cycles_of, strict=True):
            yield Figure(
                "VW-SDK", f"{network}, one array of {lines} x {lines}, {column}", str(each), command, column
            )
    for network, policy, seconds in CIM_AQ:
        what = f"{network}, {policy}, seconds in turn"
        yield Figure("CIM-AQ", what, seconds, f"{OWN} cim-aq {network} '{policy}'", "seconds")
    yield Figure(
        "CLSA-CIM", "resnet152, 32 arrays to spare, times as fast as in turn", "29.2 (at most, of all)",
        "python -c 'import crosslayer; print(\"times\"); print(crosslayer.run(\"resnet152\", "
        "32)[0].gain)'", "times",
    )  # fmt: skip
    yield Figure(
        "COMPASS", "vgg16, a quarter of the arrays, 16 inputs: greedy cuts by ours", "1.78 (at most, of all)",
        "python -c 'import reload; print(\"times\"); print(reload.run(\"vgg16\", \"x0.25\", 16, "
        "\"im2col\")[0].greedy)'",
        "times",
    )  # fmt: skip
    for name, what, printed in (
        ("pimcomp-balance", "ResNet-18, arrays of its balance", "5334"),
        ("pimcomp-genetic", "ResNet-18, arrays of its genetic search", "7416"),
    ):
        yield Figure("PIMCOMP", what, printed, f"{OWN} copies {name}", "arrays")
    for name, what, printed in (
        ("pimsyn-alexnet", "AlexNet, arrays of its annealing", "12312"),
        ("pimsyn-vgg16", "VGG-16, arrays of its annealing", "30136"),
    ):
        yield Figure("PIMSYN", what, printed, f"{OWN} copies {name}", "arrays")
    yield Figure(
        "MNSIM", "AlexNet once, arrays that it counts", "15088",
        "rramalloc export alexnet --allocation one.json --hardware mnsim --to mnsim --check", "stores",
    )  # fmt: skip
    yield Figure(
        "NeuroSim", "VGG-16 once, arrays that V1.4 and V1.5 build", "9376",
        "rramalloc export vgg16 --allocation one.json --hardware neurosim --to neurosim --check", "builds",
    )  # fmt: skip
    yield Figure(
        "ISAAC", "VGG-A, copies that keep all layers busy", "256 64 16 16 4 4 1 1",
        "rramalloc optimize vgg11 --arrays 4000 --method isaac --format csv", "copies",
    )  # fmt: skip


ABOUT = {
    "TODAES": """\
ACM TODAES 29(1):21, steps of its recurrence ([the model, 9](../docs/sources/model.md)). Its AlexNet is the
ungrouped one, `alexnet_todaes`, not `alexnet` (82 steps on 1024 arrays); exactly timed, with the hand-over in
the next step, the best allocation takes 111 steps on 1024 arrays and none takes fewer. Ours are by steepest
descent, in most rows fewer steps than its method finds. VGG-A with 4096 arrays: 164 are the fewest as the
recurrence is stated, by a search through all; 162 take 4231 arrays. ResNet-18 is no chain: it is
counted without its shortcuts, as its figures need. Copies in proportion differ in how the rest is spent.
Copies alike: the published bars have a digit more than a recurrence of whole steps.""",
    "VW-SDK": "Rhe, Moon, Ko, DATE 2022, arXiv 2112.11282: cycles of one array that is used again and again.",
    "CIM-AQ": """\
arXiv 2601.21737, from its own policies and layer files (repository rpelke/cim-aq-dev). It writes and runs one
array after the other; [what copies make of the same bits](bits.md) is another question.""",
    "CLSA-CIM": """\
DATE 2024, arXiv 2401.07671. Its figure is of another simulator, hands on sets of pixels, and counts digital
operators; [all networks and budgets](crosslayer.md).""",
    "COMPASS": """\
arXiv 2501.06780: up to 1.78 times the throughput of greedy and layer-wise cuts, on its own chip. Ours is of
our cuts against the same rules, with our times of writing; [all cases](reload.md).""",
    "PIMCOMP": """\
DAC 2023, printed by the tool for 9216 arrays of 128 x 128; its times are [others](peers.md).""",
    "PIMSYN": """\
DATE 2024, printed by the tool for 12,250 and 30,000 arrays of 256 x 256, which both exceed. Each of the 8
slices of a weight is in an array of its own, so its counts are 8 times those of plain cells.""",
    "MNSIM": """\
TCAD 2023, version 2.0, one run of its export (`python run.py MNSIM-2.0`). `inspect alexnet --hardware mnsim
--mapping whole_kernel --fc crossbar` has the same arrays by layer, and a minimum of 15,232, because a tile of
64 arrays holds one layer.""",
    "NeuroSim": """\
One run of its export in V1.4 and one in V1.5 (`python run.py CHECKOUT`), which agree. It builds whole tiles
of one layer; `inspect vgg16 --hardware neurosim` needs 7,192 arrays.""",
    "ISAAC": """\
ISCA 2016: a layer behind a stride of 2 is stored a fourth as often as the one before it, the last one once.
The rule knows no budget; others are faster on as many arrays: `rramalloc compare vgg11 --arrays 2592`.""",
}
"""What the figures of a source are, and why ours differ."""


def run(source: str, command: str) -> list[Row]:
    """Run a command and return a row for each figure that it gives."""
    wanted = [figure for figure in figures() if (figure.source, figure.command) == (source, command)]
    if source == "CIM-AQ" and bits.missing():
        return [
            Row(source, each.what, each.published, "needs its files", command, each.column) for each in wanted
        ]
    printed = output(command)
    return [
        Row(source, each.what, each.published, picked(printed, each), command, each.column) for each in wanted
    ]


def output(command: str) -> str:
    """Return what a command prints in a folder with the file one.json."""
    programs = {"rramalloc": [sys.executable, "-m", "rramalloc"], "python": [sys.executable]}
    paths = os.pathsep.join([str(RESULTS), str(RESULTS.parent), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths}
    printed = ""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "one.json").write_text('{"copies": {}}', encoding="utf-8")
        for part in command.split(" && "):
            program, *words = shlex.split(part)
            words = [str(RESULTS.parent / word) if word.startswith("results/") else word for word in words]
            done = subprocess.run(
                [*programs[program], *words], cwd=folder, env=environment, capture_output=True, text=True
            )
            if done.returncode != 0:
                raise RuntimeError(f"{part}: {done.stderr[-500:]}")
            printed = done.stdout
    return printed


def picked(printed: str, figure: Figure) -> str:
    """Return our value: the column of a CSV, joined where all rows have one, or the number after a word."""
    words = printed.split()
    if figure.column in ("stores", "builds"):
        return words[words.index(figure.column) + 1]
    rows = [row for row in csv.DictReader(printed.splitlines()) if row.get("method", "") == figure.method]
    values = [row[figure.column] for row in rows]
    return " ".join(f"{float(value):.1f}" if figure.column == "times" else value for value in values)


def chain(path: str) -> None:
    """Write ResNet-18 without its shortcuts and additions: a chain."""
    nodes: list[dict[str, Any]] = []
    for node in load("resnet18").to_dict()["nodes"]:
        if ".downsample" in node["name"] or node["op"] == "add":
            continue
        nodes.append(node | {"inputs": [nodes[-1]["name"]]} if nodes else node)
    write_json(path, Network.build("chain", nodes, source="ResNet-18 without shortcuts").to_dict())


def vw_sdk(network: str, lines: str) -> None:
    """Print the cycles of one array with no, square and variable windows."""
    hardware = load_hardware("plain").with_crossbar(int(lines), int(lines))
    totals = [0, 0, 0]
    for image, kernel, inputs, outputs in LAYERS[network]:
        nodes: list[dict[str, Any]] = [
            {"name": "input", "op": "input", "shape": [inputs, image, image]},
            {"name": "conv", "op": "conv", "inputs": ["input"], "out_channels": outputs, "kernel": kernel},
        ]
        layer = Network.build("layer", nodes)
        modes = Storage(layer.stages, None, layer, hardware)
        each = (
            cycles(modes, 0, (1, 1)),
            cycles(modes, 0, square_block(modes, 0)),
            variable_window(modes, 0)[1],
        )
        totals = [total + count for total, count in zip(totals, each, strict=True)]
    print("im2col,sdk,vw-sdk")
    print(*totals, sep=",")


def cim_aq(network: str, policy: str) -> None:
    """Print arrays and seconds as CIM-AQ counts them."""
    subject = bits.SUBJECTS[network]
    layers = read_layers(subject.sizes)
    chosen = [(8, 8)] * len(layers) if policy == bits.INT8 else read_policy(subject.file(policy))
    arrays, time_ms = bits.cim_aq(layers, chosen)
    print("arrays,seconds")
    print(f"{arrays},{time_ms / 1e3:.4f}")


def copies(name: str) -> None:
    """Print the arrays of an allocation by our demand, its exact makespan, and that of ours on as many."""
    published = COPIES[name]
    options: dict[str, Any] = {"crossbar": f"{published.lines}x{published.lines}", "fc": published.fc}
    layers = rramalloc.inspect(published.network, **options).layers
    every = [*published.copies, *[1] * (len(layers) - len(published.copies))]
    used = sum(count * layer.arrays_per_copy for count, layer in zip(every, layers, strict=True))
    chosen = {layer.name: count for layer, count in zip(layers, every, strict=True)}
    steps = rramalloc.simulate(published.network, chosen, **options).makespan
    ours = rramalloc.optimize(published.network, used, **options).makespan
    print("arrays,steps,ours")
    print(f"{used * published.slices},{steps},{ours}")


def answer(rows: Sequence[Row]) -> str:
    """Return how many figures come out as published."""
    equal = sum(row.published == row.ours for row in rows)
    return f"**{equal} of {len(rows)} published figures come out to the digit**; below is why others differ."


def body(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a section for each source: the figures, the commands, and why they differ."""
    yield '`one.json` is `{"copies": {}}`, one copy of every layer. `*`: the figure is not the same.'
    for source, about in ABOUT.items():
        own = [row for row in rows if row.source == source]
        if not own:
            continue
        yield from ("", f"## {source}", "", about, "")
        table = [["what", "published", "ours", "command", "column"]]
        for row in own:
            mark = "" if row.ours == row.published else " \\*"
            table.append([row.what, row.published, f"{row.ours}{mark}", f"`{row.command}`", row.column])
        yield from markdown(table)


STUDY = Study(
    title="Published figures",
    question="How do I get the number of that paper, or of that tool?",
    row=Row,
    cases=list(dict.fromkeys((figure.source, figure.command) for figure in figures())),
    measure=run,
    answer=answer,
    body=body,
    decided_by=(*SEARCHED, "commands/compare", "commands/export"),
)

if __name__ == "__main__":
    called, *given = sys.argv[1:]
    own: dict[str, Callable[..., None]] = {
        "chain": chain,
        "vw-sdk": vw_sdk,
        "cim-aq": cim_aq,
        "copies": copies,
    }
    own[called](*given)
