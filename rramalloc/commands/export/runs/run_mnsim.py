"""Run MNSIM 2.0 on the exported network in the folder of this file: python run.py CHECKOUT

CHECKOUT is a folder of https://github.com/thu-nics/MNSIM-2.0; it is imported and not changed. Needs numpy and
pandas. PyTorch serves its accuracy model only: empty modules take its place.
Prints copies and arrays of every layer as MNSIM counts them, and the time of its latency model.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Run the tool and print its report."""
    parser = argparse.ArgumentParser(description="Run MNSIM 2.0 on this allocation.")
    parser.add_argument("checkout", type=Path, help="folder of MNSIM-2.0")
    checkout = parser.parse_args().checkout.resolve()
    if not (checkout / "MNSIM" / "Latency_Model" / "Model_latency.py").is_file():
        sys.exit(f"{checkout} is no checkout of MNSIM-2.0: it has no MNSIM/Latency_Model/Model_latency.py")
    sys.path[:0] = [str(checkout), str(HERE)]
    take_the_place_of_torch()
    os.chdir(checkout)
    sys.dont_write_bytecode = True  # the folder stays as it was written, so that a new export may replace it
    import network as exported  # type: ignore[import-not-found]
    from MNSIM.Latency_Model import Model_latency as timing  # type: ignore[import-not-found]
    from MNSIM.Mapping_Model import Tile_connection_graph as mapping  # type: ignore[import-not-found]

    config, copies = str(HERE / "SimConfig.ini"), exported.multiple
    with contextlib.redirect_stdout(io.StringIO()):
        graph = mapping.TCG(exported.net, config, copies)
        model = timing.Model_latency(exported.net, config, multiple=copies, TCG_mapping=graph)
        model.calculate_model_latency(mode=1)
    total = 0
    for index, (name, info) in enumerate(zip(exported.names, graph.layer_tileinfo)):  # noqa: B905
        if info["type"] not in ("conv", "fc"):
            continue
        stored = info["PEnum"] // (info["mx"] * info["my"])
        timed = len(model.layer_split[index]) if info["type"] == "conv" else 1
        arrays = info["PEnum"] * graph.tile.PE_xbar_num
        if (stored, timed, arrays) != (copies[index], copies[index], exported.arrays[name]):
            sys.exit(
                f"layer {name}: MNSIM stores {stored} copies on {arrays} arrays and times {timed}, "
                f"the export has {copies[index]} copies on {exported.arrays[name]} arrays"
            )
        total += arrays
        print(f"layer {name} copies {stored} arrays {arrays}")
    print(f"arrays {total}")
    print(f"tiles {graph.used_tile_num}")
    print(f"latency_ns {max(max(times) for times in model.finish_time):.3f}")


def take_the_place_of_torch() -> None:
    """Put empty modules in place of PyTorch, whose import takes longer than all that is asked of MNSIM."""
    for name in ("torch", "torch.nn", "torch.nn.functional", "torch.autograd"):
        sys.modules[name] = ModuleType(name)


if __name__ == "__main__":
    main()
