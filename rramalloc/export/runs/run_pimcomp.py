"""Run this folder's network in PIMCOMP with the replication of this folder.

    python run.py CHECKOUT [--mode low-latency|high-throughput] [--build FOLDER] [--log FILE]

CHECKOUT: a clone of https://github.com/sunxt99/PIMCOMP-NN, which stays as it is. A copy of its sources is
built once in FOLDER, by default in the user's cache, for all exports; needs cmake, make and a C++ compiler.
Prints copies and arrays of every layer as PIMCOMP counts them, and its time: of one input (low latency), or
between inputs (high throughput).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
MODES = {"low-latency": ("element", "latency_ns"), "high-throughput": ("batch", "interval_ns")}
"""Its name of a mode, and what the time that it prints is."""
STACK_BYTES = 64 * 2**20
"""Of the tool: a schedule that recurses without end fails at once, instead of filling the memory."""

TRIES = 10
"""The tool reads memory that it has not written: of equal runs some end with a segmentation fault."""

EDITS = (
    # The tool has no input for an allocation: take it from the file REPLICATION_JSON, by index of the node.
    (
        "main.cpp",
        "    replication.ReplicateWeight(replicating_method);\n",
        """    replication.ReplicateWeight(replicating_method);
    if (const char *path = getenv("REPLICATION_JSON"))
    {
        Json::Value given;
        Json::Reader reader;
        std::ifstream file(path);
        if (!reader.parse(file, given, true)) { std::cerr << "cannot read " << path << std::endl; return; }
        for (auto it = given.begin(); it != given.end(); ++it)
            PIMCOMP_node_list[std::stoi(it.key().asString())].replication_num = (*it).asInt();
    }
""",
    ),
    # Report what is stored.
    (
        "main.cpp",
        "    partition.PartitionCrossbar();\n",
        """    partition.PartitionCrossbar();
    for (const auto &node : PIMCOMP_2_AG_partition)
    {
        long arrays = (long) node.replication_num * node.AG_num_per_replication * node.crossbar_num_per_AG;
        std::cout << "STORED " << node.index << " copies " << node.replication_num_origin
                  << " arrays " << arrays << std::endl;
    }
""",
    ),
    # The low-latency mode has the node whose result leaves the chip, and its pixels, for its own models only.
    (
        "backend/ElementPipelineSchedule.cpp",
        '    if (model_name == "alexnet")\n',
        """    if (const char *node = getenv("LAST_NODE"))
    {
        last_node_index = atoi(node);
        const char *pixels = getenv("LAST_PIXELS");
        last_node_output_channel_num = pixels ? atoi(pixels) : 1;
    }
    else if (model_name == "alexnet")
""",
    ),
    # It ends a schedule after 2000 steps, finished or not.
    ("backend/ElementPipelineSchedule.cpp", 'model_name == "vgg16" ? 15000 : 2000', "200000"),
)
KEPT_OUT = (".git", "build", "doc", "frontend", "models", "output", "verification")
"""Folders of the checkout that no build needs."""
FINISHED = "[effective_instruction_group_num]"


def main() -> None:
    """Build the tool if needed, run it, print what it reports."""
    parser = argparse.ArgumentParser(description="Run this export in PIMCOMP.")
    parser.add_argument("checkout", type=Path, help="a clone of PIMCOMP-NN")
    parser.add_argument("--mode", choices=tuple(MODES), default="low-latency")
    parser.add_argument("--build", type=Path, default=cache(), help="where its copy is built: %(default)s")
    parser.add_argument("--log", type=Path, help="where all that the tool prints is written")
    arguments = parser.parse_args()
    program = build(arguments.checkout.resolve(), arguments.build.resolve())
    for line in run(program, arguments.mode, arguments.log):
        print(line)


def cache() -> Path:
    """The folder of the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rramalloc" / "pimcomp"


def build(checkout: Path, folder: Path) -> Path:
    """The tool's program, built in a folder from a copy of the checkout with EDITS.

    Not inside the checkout: its own build would take every main.cpp below it.
    """
    if not (checkout / "main.cpp").exists():
        sys.exit(f"{checkout} is no checkout of PIMCOMP-NN: it has no main.cpp")
    target = folder / digest(checkout)
    program = target / "build" / "PIMCOMP-NN"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        copy = Path(work) / "copy"
        copy.mkdir()
        for path in sources(checkout):
            (copy / path.relative_to(checkout)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy / path.relative_to(checkout))
        for name, old, new in EDITS:
            edit(copy / name, old, new)
        for command in (
            ["cmake", "-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Release"],
            ["cmake", "--build", "build", "--parallel", "2"],
        ):
            done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        try:
            copy.rename(target)
        except OSError:  # another process was first
            if not program.exists():
                raise
    return program


def sources(checkout: Path) -> list[Path]:
    """Files of the checkout that a build can need."""
    folders = [path for path in checkout.iterdir() if path.is_dir() and path.name not in KEPT_OUT]
    paths = [*checkout.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]
    return sorted(path for path in paths if path.is_file())


def digest(checkout: Path) -> str:
    """Names the sources as they are, and EDITS: other sources are built anew."""
    names = hashlib.sha256(repr(EDITS).encode())
    for path in sources(checkout):
        names.update(f"{path.relative_to(checkout)} {path.stat().st_size} ".encode() + path.read_bytes())
    return names.hexdigest()[:16]


def edit(path: Path, old: str, new: str) -> None:
    """Replace the one place of `old` in a file."""
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        sys.exit(f"{path.name} has {text.count(old)} places of {old.strip()!r}: another version of the tool")
    path.write_text(text.replace(old, new), encoding="utf-8")


def run(program: Path, mode: str, log: Path | None) -> list[str]:
    """What the tool reports of this folder's network."""
    settings = json.loads((FOLDER / "run.json").read_text(encoding="utf-8"))
    granularity, value = MODES[mode]
    with tempfile.TemporaryDirectory() as work:
        for name in ("build", "output", "models/JSON"):
            (Path(work) / name).mkdir(parents=True)
        shutil.copy(FOLDER / "network.json", Path(work) / "models" / "JSON" / "network.json")
        shutil.copy(FOLDER / "config.json", Path(work) / "config.json")
        variables = {
            "REPLICATION_JSON": str(FOLDER / "replication.json"),
            "LAST_NODE": str(settings["last_node"]),
            "LAST_PIXELS": str(settings["last_pixels"]),
        }
        for _ in range(TRIES):
            done = subprocess.run(
                [str(program), "-m=network", "-r=balance", f"-p={granularity}"],
                cwd=Path(work) / "build", env={**os.environ, **variables}, capture_output=True, text=True,
                preexec_fn=limit,
            )  # fmt: skip
            if done.returncode != -signal.SIGSEGV:
                break
    if log is not None:
        log.write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode == -signal.SIGKILL:
        sys.exit("PIMCOMP was killed, as for want of memory: large images take more than 20 GB")
    lines = done.stdout.splitlines()
    if done.returncode or "practical (ns)" not in lines:
        sys.exit(f"PIMCOMP ended with code {done.returncode}: {done.stderr[-2000:]}{done.stdout[-2000:]}")
    if mode == "low-latency" and not any(line.startswith(FINISHED) for line in lines):
        sys.exit("PIMCOMP did not finish the schedule: the last node never got its inputs")
    stored = [line.split() for line in lines if line.startswith("STORED ")]
    arrays = sum(int(words[-1]) for words in stored)
    if arrays != settings["arrays"]:
        sys.exit(f"PIMCOMP stores {arrays} arrays, the export counted {settings['arrays']}: please report it")
    nodes = json.loads((FOLDER / "network.json").read_text(encoding="utf-8"))["node_list"]
    report = [f"layer {nodes[int(index)]['name']} {' '.join(rest)}" for _, index, *rest in stored]
    time_ns = float(lines[lines.index("practical (ns)") + 1])
    return [*report, f"arrays {arrays}", f"{value} {time_ns:.0f}"]


def limit() -> None:
    """Cap the stack of the tool; where memory runs out, the tool is ended and nothing else."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    soft = STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
    score = Path("/proc/self/oom_score_adj")
    if score.exists():
        score.write_text("1000", encoding="ascii")


if __name__ == "__main__":
    main()
