"""Build and run NeuroSim on the exported network in the folder of this file: python run.py CHECKOUT

CHECKOUT is a folder of https://github.com/neurosim/DNN_NeuroSim_V1.4, or of the branch 2DInferenceV1.5-dev of
https://github.com/neurosim/NeuroSim; it is not changed: a copy of its C++ part, NeuroSIM, is edited and built
with make, once for all exports with the same parameters, below --build, by default in the user's cache. The
edits set our values in Param.cpp, take `pipelineSpeedUp` from the environment, and let a short trace stand
for all input vectors.
Prints the version, copies, arrays and tiles of every layer as NeuroSim counts them, its area and its time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FOLDERS = ("Inference_pytorch/NeuroSIM", "NeuroSIM")
"""Folders of the C++ part in a checkout of V1.4 and of V1.5."""
READS_INTEGERS = "(val >> (param->numBitInput - 1 - i)) & 1"
"""Text in Chip.cpp of V1.5, which reads inputs as integers; V1.4 reads them bit by bit."""
LEVELS = ("-1", "-.75", "-.5", "-.25", "0", ".25", ".5", ".75")
TRACE_ROWS = 512
"""Rows of the weights; a larger matrix repeats them."""
TRACE_COLUMNS = 64
"""Columns of the weights; a larger matrix repeats them."""

EVERY_VECTOR = """const int traced = subArrayInput[0].size();
						const double share = (double) numInVector / traced;
						for (int k=0; k<traced; k++) {"""
SPEED_UP = """{
		const char *copies = getenv("PIPELINE_SPEED_UP");
		istringstream list(copies ? copies : "");
		string count;
		for (size_t layer = 0; layer < pipelineSpeedUp.size() && getline(list, count, ','); layer++)
			pipelineSpeedUp[layer] = atoi(count.c_str());
		return pipelineSpeedUp;
	}"""
SOURCES: dict[str, list[tuple[str, str, int]]] = {
    "Chip.cpp": [
        (r"return pipelineSpeedUp;", SPEED_UP, 1),
        (r"orginal\[([^]]+)\]\[([^]]+)\]", r"orginal[(\1) % orginal.size()][(\2) % orginal[0].size()]", 4),
        (r"j<numInputVector;", "j<numInputVector && j<(int) orginal[0].size();", 2),
    ],
    "Tile.cpp": [
        (r"orginal\[([^]]+)\]\[([^]]+)\]", r"orginal[(\1) % orginal.size()][(\2) % orginal[0].size()]", 2),
        (r"j<numInputVector;", "j<numInputVector && j<(int) orginal[0].size();", 1),
    ],
    "ProcessingUnit.cpp": [
        (r"orginal\[([^]]+)\]\[([^]]+)\]", r"orginal[(\1) % orginal.size()][(\2) % orginal[0].size()]", 2),
        (r"j<numInputVector;", "j<numInputVector && j<(int) orginal[0].size();", 1),
        (r"for \(int k=0; k<numInVector; k\+\+\) \{", EVERY_VECTOR, 3),
        (r"\+= subArray->(read\w+);", r"+= share * subArray->\1;", 24),
    ],
}
"""Edits of a source: pattern, replacement, and how often it occurs in either version.

A trace shorter than the matrix or the inputs of a layer repeats; what one input vector takes counts for all
that it stands for. With a whole trace nothing changes.
"""


def main() -> None:
    """Build and run the tool, and print its report."""
    parser = argparse.ArgumentParser(description="Run NeuroSim V1.4 or V1.5 on this allocation.")
    parser.add_argument("checkout", type=Path, help="folder of DNN_NeuroSim_V1.4, or of NeuroSim V1.5")
    parser.add_argument("--build", type=Path, default=cache(), help="where its copy is built: %(default)s")
    parser.add_argument(
        "--vectors", type=int, default=1, help="input vectors of the random trace (default: 1)"
    )
    parser.add_argument("--own", action="store_true", help="NeuroSim's own copies in place of ours")
    arguments = parser.parse_args()
    source = cpp_part(arguments.checkout)
    version = "1.5" if READS_INTEGERS in (source / "Chip.cpp").read_text("latin-1") else "1.4"
    settings = json.loads((HERE / "settings.json").read_text("utf-8"))
    build = built(source, arguments.build.resolve(), settings["parameters"])
    vectors = max(1, arguments.vectors)
    text = simulate(build, settings, vectors, as_integers=version == "1.5", own=arguments.own)
    (HERE / "report.txt").write_text(text, "utf-8")
    print(f"version {version}")
    report(text, settings, own=arguments.own)


def cpp_part(checkout: Path) -> Path:
    """Return the folder of the C++ sources in a checkout; exit if it has none."""
    for folder in FOLDERS:
        if (checkout / folder / "Chip.cpp").is_file():
            return (checkout / folder).resolve()
    sys.exit(
        f"{checkout} is no checkout of NeuroSim V1.4 or V1.5: it has no {' or '.join(FOLDERS)} with Chip.cpp"
    )


def cache() -> Path:
    """Return the folder of the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rramalloc" / "neurosim"


def built(source: Path, folder: Path, parameters: dict[str, Any]) -> Path:
    """Return the folder of the tool built with these parameters; other sources or parameters are
    built anew."""
    texts = {
        path.name: edited(path, parameters)
        for path in sorted(source.iterdir())
        if path.suffix in (".cpp", ".h") or path.name == "makefile"
    }
    target = folder / hashlib.sha256(repr(texts).encode()).hexdigest()[:16]
    if (target / "main").exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        copy = Path(work) / "copy"
        copy.mkdir()
        for name, text in texts.items():
            (copy / name).write_text(text, "latin-1")
        made = subprocess.run(["make", "-s", "-C", str(copy)], capture_output=True, text=True)  # noqa: S607
        if made.returncode != 0:
            sys.exit(f"make failed: {made.stderr[-2000:]}")
        try:
            copy.rename(target)
        except OSError:  # another process was first
            if not (target / "main").exists():
                raise
    return target


def edited(path: Path, parameters: dict[str, Any]) -> str:
    """Return the text of a source with its edits."""
    text = path.read_text("latin-1")
    for pattern, replacement, times in edits(path.name, parameters):
        text, count = re.subn(pattern, replacement, text)
        if count != times:
            sys.exit(f"{path.name}: {pattern!r} occurs {count} times, in V1.4 and V1.5 {times} times")
    return text


def edits(name: str, parameters: dict[str, Any]) -> list[tuple[str, str, int]]:
    """Return the patterns to replace in a source."""
    if name != "Param.cpp":
        return SOURCES.get(name, [])
    values = {key: str(value).lower() for key, value in parameters.items()}
    return [(rf"(?m)^\t{key} = \w+;", f"\t{key} = {value};", 1) for key, value in values.items()]


def simulate(build: Path, settings: dict[str, Any], vectors: int, *, as_integers: bool, own: bool) -> str:
    """Return the output of `main`; as_integers: an input of the trace is one number, not one for each bit."""
    draw = random.Random(0)  # noqa: S311
    bits = settings["input_bits"]
    weights = [draw.choices(LEVELS, k=TRACE_COLUMNS) for _ in range(TRACE_ROWS)]
    inputs = [draw.choices("01", k=vectors * bits) for _ in range(TRACE_ROWS)]
    if as_integers:
        starts = range(0, vectors * bits, bits)
        inputs = [[str(int("".join(row[at : at + bits]), 2)) for at in starts] for row in inputs]
    traces = {"weights.csv": weights, "inputs.csv": inputs}
    for name, rows in traces.items():
        (HERE / name).write_text("\n".join(",".join(row) for row in rows) + "\n", "utf-8")
    numbers = (settings["weight_bits"], settings["input_bits"])
    rows_of = (settings["parameters"]["numRowSubArray"], settings["rows_parallel"])
    command = [str(build / "main"), "NetWork.csv", *map(str, (*numbers, *rows_of))]
    command += [*traces] * len(settings["layers"])
    environment = dict(os.environ)
    if not own:
        copies = json.loads((HERE / "pipelineSpeedUp.json").read_text("utf-8"))
        environment["PIPELINE_SPEED_UP"] = ",".join(map(str, copies))
    done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True)
    if done.returncode != 0 or "ERROR" in done.stdout:
        sys.exit(f"NeuroSim ended with {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


def report(text: str, settings: dict[str, Any], *, own: bool) -> None:
    """Print its counts, area and time; stop where it counts other copies or tiles than the export."""
    tiles = per_layer(text, "# of tile used for each layer")
    copies = per_layer(text, "Speed-up of each layer")
    total = 0
    for index, name in enumerate(settings["layers"]):
        if not own and (copies[index], tiles[index]) != (settings["copies"][index], settings["tiles"][index]):
            sys.exit(
                f"layer {name}: NeuroSim makes {copies[index]} copies in {tiles[index]} tiles, "
                f"the export {settings['copies'][index]} copies in {settings['tiles'][index]} tiles"
            )
        arrays = tiles[index] * settings["arrays_per_tile"][index]
        total += arrays
        print(f"layer {name} copies {copies[index]} arrays {arrays}")
    print(f"arrays {total}")
    print(f"tiles {sum(tiles)}")
    for name, words in (
        ("area_um2", "ChipArea"),
        ("cycle_ns", "Chip pipeline-system-clock-cycle (per image)"),
    ):
        value = re.search(re.escape(words) + r"[^0-9]*([0-9.e+]+)", text)
        if value is None:
            sys.exit(f"NeuroSim printed no {words!r}")
        print(f"{name} {float(value.group(1)):.3f}")


def per_layer(text: str, heading: str) -> list[int]:
    """Return the numbers of the list under a heading."""
    block = text.split(heading, 1)[1].split("\n\n", 1)[0]
    return [int(float(line.split(":")[1])) for line in block.splitlines() if line.startswith("layer")]


if __name__ == "__main__":
    main()
