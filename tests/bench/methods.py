"""All methods on every shipped network: exact makespan, bound and time, at a multiple of the minimum.

Writes results/methods.md:  python tests/bench/methods.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rramalloc.allocation.allocation import Allocation
from rramalloc.api import inspect, optimize
from rramalloc.errors import SolverError
from rramalloc.network.shipped import shipped_names

METHODS = ("auto", "interval", "recurrence", "milp-cbc", "milp")
FACTORS = (1.2, 2, 4)
SOLVER_LIMIT_S = 10.0
RESULT = Path(__file__).resolve().parents[2] / "results" / "methods.md"


def run(network: str, arrays: int, method: str) -> tuple[Allocation | None, float]:
    """The allocation, None if a solver found none in time, and the wall-clock seconds."""
    limit = SOLVER_LIMIT_S if method.startswith("milp") else None
    begun = time.perf_counter()
    try:
        found = optimize(network, arrays, method=method, time_limit_s=limit)
    except SolverError:
        found = None
    return found, time.perf_counter() - begun


def main() -> None:
    """Measure and write the page; ends with exit code 1 if any method beats auto."""
    optimize("alexnet", 400)
    lines = [
        "# Methods",
        "",
        "Exact makespan in steps, best in bold, and wall-clock seconds in brackets; arrays of 128 x 128.",
        f"The MILPs over the separable model end after {SOLVER_LIMIT_S:.0f} s. Bound, gap: auto's.",
        "Regenerate with `python tests/bench/methods.py`.",
        "",
        "| network | arrays | bound | gap | " + " | ".join(METHODS) + " |",
        "|" + "---|" * (4 + len(METHODS)),
    ]
    beaten = []
    for network in shipped_names():
        minimum = inspect(network).minimum
        for factor in FACTORS:
            arrays = int(minimum * factor)
            found = {method: run(network, arrays, method) for method in METHODS}
            best = min(item.makespan for item, _ in found.values() if item is not None)
            auto = found["auto"][0]
            assert auto is not None
            if auto.makespan > best:
                beaten.append((network, arrays, auto.makespan, best))
            cells = []
            for allocation, seconds in found.values():
                steps = "-" if allocation is None else str(allocation.makespan)
                cells.append(f"{f'**{steps}**' if steps == str(best) else steps} ({seconds:.1f})")
            row = [network, str(arrays), str(auto.lower_bound), f"{auto.gap:.1%}", *cells]
            lines.append("| " + " | ".join(row) + " |")
            print(lines[-1], flush=True)
    lines += ["", f"Cases in which another method beats auto: {len(beaten)}."]
    RESULT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if beaten:
        sys.exit(f"auto is beaten: {beaten}")


if __name__ == "__main__":
    main()
