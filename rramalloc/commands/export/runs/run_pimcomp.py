"""Run this folder's network in PIMCOMP with the copies and cores of this folder.

    python run.py CHECKOUT [PIMSIM] [--mode low-latency|high-throughput]
                  [--own [balance|genetic]] [--margin SHARE]

CHECKOUT: a clone of https://github.com/sunxt99/PIMCOMP-NN, which stays as it is. A copy of its sources is
built once in FOLDER, by default in the user's cache, for all exports; needs cmake, make and a C++ compiler.
Prints copies and arrays of every layer as PIMCOMP counts them, and its time: of one input (low latency), or
between inputs (high throughput). With PIMSIM, a clone of https://github.com/wangxy-2000/pimsim-nn that is
built as its README says, the time is that of pimsim-nn for PIMCOMP's instructions, on the mesh of 64 cores
that it ships: the chip must have 8 x 8 cores.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
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
REPLICATION_METHODS = {"balance": "balance", "genetic": "GA"}
"""Its own ways to choose copies and cores; the draws of the genetic one depend on the clock."""
STACK_BYTES = 64 * 2**20
"""Stack of the tool: a schedule that recurses without end fails at once, instead of filling the memory."""

PIMSIM_LIMIT_MS = 2000
"""Simulated time after which pimsim-nn gives up and reports a latency of 0."""

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
    # Nor for cores: take them from the file CORES_JSON, by index of the node, group by group of each copy.
    (
        "backend/HierarchyMapping.cpp",
        """    if (replicating_method != "GA")
    {
        /// Baseline
""",
        """    if (const char *path = getenv("CORES_JSON"))
    {
        Json::Value given;
        Json::Reader reader;
        std::ifstream file(path);
        if (!reader.parse(file, given, true)) throw std::runtime_error("cannot read the cores");
        PIMCOMP_DSE_node_map_info.assign(1, std::vector<std::vector<std::vector<int>>>(node_num));
        std::vector<int> left(ChipW * ChipH, CoreW * CoreH);
        for (const auto &node : PIMCOMP_2_AG_partition)
        {
            const Json::Value &cores = given[std::to_string(node.index)];
            int groups = node.AG_num_per_replication, next = 0;
            if (cores.size() != (unsigned) node.replication_num * groups)
                throw std::runtime_error("cores are not given for every array group of " + node.name);
            auto &map = PIMCOMP_DSE_node_map_info[0][node.index];
            map.assign(node.replication_num, std::vector<int>(groups));
            for (auto &copy : map)
                for (auto &core : copy)
                {
                    core = cores[next++].asInt();
                    if ((left.at(core) -= node.crossbar_num_per_AG) < 0)
                        throw std::runtime_error("core " + std::to_string(core) + " gets too many arrays");
                }
        }
        LoadGAMappingResult(0);
    }
    else if (replicating_method != "GA")
    {
        /// Baseline
""",
    ),
    # Its balance rule holds back half of the arrays that classifiers leave: let that be chosen.
    (
        "backend/WeightReplication.cpp",
        "    float margin_factor = 0.5;\n",
        """    float margin_factor = getenv("MARGIN") ? atof(getenv("MARGIN")) : 0.5;
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
    # What pimsim-nn reads: arrays of every group of a core, groups by their number in the core, bits of data.
    (
        "backend/ElementPlacement.cpp",
        """    Json::Value offset;
    offset["offset_value"] = 0;
""",
        """    std::map<std::string, std::map<int, int>> local_group; Json::Value group_map;
    Json::Value offset;
    offset["offset_value"] = 0;
""",
    ),
    (
        "backend/ElementPlacement.cpp",
        """                        JsonInstruction["group"] = AG_crossbar_num[AG_index];
""",
        """                        auto &groups = local_group[core_name];
                        if (!groups.count(AG_index))
                        {
                            int number = groups.size();
                            groups[AG_index] = number;
                            group_map[core_name].append(AG_crossbar_num[AG_index]);
                        }
                        JsonInstruction["group"] = groups[AG_index];
                        JsonInstruction["ibiw"] = 8;
                        JsonInstruction["obiw"] = 8;
""",
    ),
    (
        "backend/ElementPlacement.cpp",
        """    int core_cnt = PIMCOMP_SIMULATION_INFO.size();
""",
        """    int core_cnt = 0;
    for (int j = 0; j < ChipW * ChipH; ++j)
        if (PIMCOMP_SIMULATION_INFO.isMember("core" + std::to_string(j)))
            core_cnt = j + 1;
    PIMCOMP_SIMULATION_INFO["config"]["array_group_map"] = group_map;
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
    parser.add_argument("pimsim", type=Path, nargs="?", help="a clone of pimsim-nn, built")
    parser.add_argument("--mode", choices=tuple(MODES), default="low-latency")
    parser.add_argument("--build", type=Path, default=cache(), help="where its copy is built: %(default)s")
    parser.add_argument(
        "--own",
        nargs="?",
        const="balance",
        choices=tuple(REPLICATION_METHODS),
        help="PIMCOMP's own copies and cores in place of ours",
    )
    parser.add_argument(
        "--margin",
        type=from_0_to_1,
        help="arrays that its balance rule holds back, as a share: 0.5 by default",
    )
    parser.add_argument("--log", type=Path, help="where all that the tool prints is written")
    arguments = parser.parse_args()
    if arguments.margin is not None and arguments.own != "balance":
        parser.error("--margin is of the balance rule: it needs --own balance")
    program = build_pimcomp(arguments.checkout.resolve(), arguments.build.resolve())
    with tempfile.TemporaryDirectory() as work:
        instructions = None if arguments.pimsim is None else Path(work) / "instructions.gz"
        report = run(program, arguments.mode, arguments.log, arguments.own, arguments.margin, instructions)
        if instructions is not None:
            report[-1] = simulated_latency(arguments.pimsim.resolve(), instructions, Path(work))
    for line in report:
        print(line)


def from_0_to_1(text: str) -> float:
    """Return a number from 0 to 1."""
    if not 0 <= (value := float(text)) <= 1:
        raise argparse.ArgumentTypeError(f"must be from 0 to 1, got {text}")
    return value


def cache() -> Path:
    """Return the folder of the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rramalloc" / "pimcomp"


def build_pimcomp(checkout: Path, folder: Path) -> Path:
    """Return the tool's program, built in a folder from a copy of the checkout with EDITS.

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
    """Return the files of the checkout that a build can need."""
    folders = [path for path in checkout.iterdir() if path.is_dir() and path.name not in KEPT_OUT]
    paths = [*checkout.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]
    return sorted(path for path in paths if path.is_file())


def digest(checkout: Path) -> str:
    """Return a hash of the sources and EDITS: a change of either causes a new build."""
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


def run(
    program: Path, mode: str, log: Path | None, own: str | None = None, margin: float | None = None,
    instructions: Path | None = None,
) -> list[str]:  # fmt: skip
    """Return the tool's report of this folder's network.

    own: the method by which it chooses copies itself; margin: of its balance rule; instructions: where those
    for pimsim-nn are written.
    """
    settings = json.loads((FOLDER / "run.json").read_text(encoding="utf-8"))
    granularity, value = MODES[mode]
    with tempfile.TemporaryDirectory() as work:
        for name in ("build", "output", "models/JSON"):
            (Path(work) / name).mkdir(parents=True)
        shutil.copy(FOLDER / "network.json", Path(work) / "models" / "JSON" / "network.json")
        shutil.copy(FOLDER / "config.json", Path(work) / "config.json")
        variables = {
            "LAST_NODE": str(settings["last_node"]),
            "LAST_PIXELS": str(settings["last_pixels"]),
        }
        if margin is not None:
            variables["MARGIN"] = str(margin)
        if own is None:
            variables["REPLICATION_JSON"] = str(FOLDER / "replication.json")
            if (FOLDER / "cores.json").exists():
                variables["CORES_JSON"] = str(FOLDER / "cores.json")
        command = [
            str(program),
            "-m=network",
            f"-r={REPLICATION_METHODS[own or 'balance']}",
            f"-p={granularity}",
        ]
        command += [] if instructions is None else ["-s=YES"]
        for _ in range(TRIES):
            done = subprocess.run(
                command,
                cwd=Path(work) / "build", env={**os.environ, **variables}, capture_output=True, text=True,
                preexec_fn=limit,
            )  # fmt: skip
            if done.returncode != -signal.SIGSEGV:
                break
        for made in (Path(work) / "output").glob("SimulationInfo*"):
            if instructions is not None:
                shutil.copy(made, instructions)
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
    if own is None and arrays != settings["arrays"]:
        sys.exit(f"PIMCOMP stores {arrays} arrays, the export counted {settings['arrays']}: please report it")
    nodes = json.loads((FOLDER / "network.json").read_text(encoding="utf-8"))["node_list"]
    report = [f"layer {nodes[int(index)]['name']} {' '.join(rest)}" for _, index, *rest in stored]
    time_ns = float(lines[lines.index("practical (ns)") + 1])
    return [*report, f"arrays {arrays}", f"{value} {time_ns:.0f}"]


def simulated_latency(checkout: Path, instructions: Path, work: Path) -> str:
    """Return the latency that pimsim-nn reports of PIMCOMP's instructions."""
    program, example = checkout / "build" / "ChipTest", checkout / "example" / "config"
    if not program.exists():
        sys.exit(f"{checkout} has no build/ChipTest: build pimsim-nn as its README says")
    if not instructions.exists():
        sys.exit("PIMCOMP wrote no instructions for pimsim-nn")
    config = json.loads((example / "latency_config.json").read_text(encoding="utf-8"))
    config["sim_config"] |= {"sim_mode": 1, "sim_time": PIMSIM_LIMIT_MS}
    (work / "latency.json").write_text(json.dumps(config), encoding="utf-8")
    shutil.copy(example / "network_mesh_64.json", work)
    libraries = str(checkout / "build" / "packages" / "systemc" / "src")
    done = subprocess.run(
        [str(program), str(instructions), str(work / "latency.json")], cwd=work, capture_output=True,
        text=True, errors="replace", env={**os.environ, "LD_LIBRARY_PATH": libraries},
    )  # fmt: skip
    report = done.stdout.partition("Chip Simulation Result")[2]
    latency = re.search(r"latency:\s*([0-9.]+)\s*(ms|us|ns|s)\b", report)
    if done.returncode or latency is None:
        sys.exit(f"pimsim-nn ended with code {done.returncode}: {done.stdout[-300:]}")
    if not float(latency[1]):
        sys.exit(f"pimsim-nn did not end within {PIMSIM_LIMIT_MS} ms of simulated time")
    unit_ns = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[latency[2]]
    return f"latency_ns {float(latency[1]) * unit_ns:.0f}"


def limit() -> None:
    """Limit the stack of the tool; where memory runs out, the tool is ended and nothing else."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    soft = STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
    score = Path("/proc/self/oom_score_adj")
    if score.exists():
        score.write_text("1000", encoding="ascii")


if __name__ == "__main__":
    main()
