"""Run PIMSYN's evaluation on the exported network in the folder of this file: python run.py CHECKOUT

CHECKOUT is a folder of https://github.com/lixixi-jook/PIMSYN-NN; it is imported and not changed.
Sets our copies with `set_weight_duplication`, or with --own those that its annealing chooses. Its evolution
engine then divides the layers among macros and chooses converters, at the power at which its design space has
as many arrays as the network takes. Prints copies and arrays of every layer as PIMSYN counts them, and the
time of the design it finds most efficient.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
SHARES = (0.3, 0.25, 0.2, 0.15, 0.1, 0.05, 0.02)
"""Shares of the power that arrays take, the first with a design: the four that PIMSYN tries, and
lower ones."""

CANDIDATES = 3
"""Candidates of its annealing that are evaluated with --own."""


def main() -> None:
    """Run the tool and print its report."""
    parser = argparse.ArgumentParser(description="Evaluate this allocation with PIMSYN.")
    parser.add_argument("checkout", type=Path, help="folder of PIMSYN-NN")
    parser.add_argument("--genes", type=int, help="designs to try (default: as its config.json says)")
    parser.add_argument("--seed", type=int, default=0, help="of the designs (default: 0)")
    parser.add_argument("--own", type=int, metavar="ARRAYS", help="PIMSYN's own copies for so many arrays")
    arguments = parser.parse_args()
    checkout = arguments.checkout.resolve()
    if not (checkout / "evolution_algorithm.py").is_file():
        sys.exit(f"{checkout} is no checkout of PIMSYN-NN: it has no evolution_algorithm.py")
    sys.path.insert(0, str(checkout))
    take_the_place_of_tqdm()
    settings = json.loads((HERE / "allocation.json").read_text("utf-8"))
    settings["duplication"] = json.loads((HERE / "duplication.json").read_text("utf-8"))
    config = json.loads((checkout / "config.json").read_text("utf-8")) | settings["config"]
    config |= {"network": str(HERE / "network.json"), "macro_setting": "specified", "macro_reuse": False}
    if arguments.genes is not None:
        config["EA"]["gene_num"] = arguments.genes
    smallest = min(config["memory"], key=int)
    for size in (2**power for power in range(int(smallest).bit_length() - 1)):
        config["memory"][str(size)] = config["memory"][smallest]  # it fails on memories below its smallest
    random.seed(arguments.seed)
    tried = [settings] if arguments.own is None else own_choices(settings, config, arguments.own)
    designs = [design for copies in tried if (design := first_design(copies, config)) is not None]
    report = max(designs, key=lambda design: design["efficiency"], default=None)
    if report is None:
        sys.exit(
            "PIMSYN finds no design of these copies: converters take too much power, or a buffer over 4 MB"
        )
    for name, counted in report["layers"].items():
        expected = settings["copies"][name], settings["arrays"][name]
        if arguments.own is None and counted != expected:
            sys.exit(
                f"layer {name}: PIMSYN has {counted[0]} copies on {counted[1]} arrays, "
                f"the export {expected[0]} copies on {expected[1]} arrays"
            )
        print(f"layer {name} copies {counted[0]} arrays {counted[1]}")
    print(f"arrays {sum(arrays for _, arrays in report['layers'].values())}")
    print(f"power_w {report['power_w']:.3f}")
    print(f"efficiency_gops_w {report['efficiency']:.3f}")
    print(f"latency_ns {report['time_ns']:.3f}")


def own_choices(settings: dict[str, Any], config: dict[str, Any], arrays: int) -> list[dict[str, Any]]:
    """Return the settings with the copies of the best candidates of its annealing."""
    from neural_network_parse import NeuralNetworkParser  # type: ignore[import-not-found]
    from simulated_annealing import SimulatedAnnealingAlgorithm  # type: ignore[import-not-found]

    network = NeuralNetworkParser(config["network"])
    network.parse_neural_network()
    names = network.conv_list
    demand = [settings["arrays"][name] // settings["copies"][name] for name in names]
    annealing = SimulatedAnnealingAlgorithm(
        layer_parameters=network.layer_paras, weight_volumn=demand, xbar_size=settings["size"],
        rrams_for_weight=math.ceil(config["weight_res"] / settings["resolution"]), sa_config=config["SA"],
    )  # fmt: skip
    annealing.run(arrays)
    order = sorted(range(len(annealing.candidates)), key=lambda place: annealing.value[place])
    choices = []
    for place in order[:CANDIDATES]:
        layers = [network.layer_dict[name] for name in names]
        pairs = zip(annealing.candidates[place], layers)  # noqa: B905
        copies = [max(1, min(count, layer.W * layer.H)) for count, layer in pairs]
        taken = {name: count * need for name, count, need in zip(names, copies, demand)}  # noqa: B905
        choices.append(settings | {"duplication": copies, "arrays": settings["arrays"] | taken})
    return choices


def first_design(settings: dict[str, Any], config: dict[str, Any]) -> dict[str, Any] | None:
    """Return the best design at the first share of the power that has any."""
    designs = (most_efficient(settings, config, ratio) for ratio in SHARES)
    return next((design for design in designs if design is not None), None)


def most_efficient(settings: dict[str, Any], config: dict[str, Any], ratio: float) -> dict[str, Any] | None:
    """Return PIMSYN's report of its best design if arrays take `ratio` of the power; None if there
    is none."""
    import dse  # type: ignore[import-not-found]
    import evolution_algorithm  # type: ignore[import-not-found]
    from neural_network_parse import NeuralNetworkParser

    size, resolution = settings["size"], settings["resolution"]
    network = NeuralNetworkParser(config["network"])
    network.parse_neural_network()
    dse.set_weight_duplication(network.layer_dict, settings["duplication"])
    peak = config["RRAM"][f"{size}_{resolution}"]["peak_power"]
    arrays = sum(settings["arrays"].values())
    engine = evolution_algorithm.EvolutionAlgorithm(
        layer_dict=network.layer_dict, layer_list=network.conv_list + network.fc_list,
        layer_paras=network.layer_paras, config=config, max_power=arrays * peak * (1 / ratio - 1),
        rram_res=resolution, xbar_size=size,
    )  # fmt: skip
    engine.build_mutate_space()
    counted = [most * least for most, least in zip(engine.macro_num_limits, engine.mini_macro_size)]  # noqa: B905
    energy, times = evolution_algorithm.evaluate_components_energy, list[float]()

    def energy_and_time(*values: Any) -> Any:
        times.append(values[-1])
        return energy(*values)

    evolution_algorithm.evaluate_components_energy = energy_and_time
    best = (0.0, 0.0, 0, 0, None)
    engine.reset_ea_engine()
    engine.init_population()
    for dac in dse.DEFAULT_DAC_RESOLUTION:
        adc = int(math.log2(size) + dac + resolution - (1 if dac > 1 and resolution > 1 else 2))
        if adc not in dse.DEFAULT_ADC_RESOLUTION:
            continue
        for gene in engine.population:
            efficiency = engine.evaluate_fitness(gene, dac, adc)
            if efficiency > best[0]:
                best = (efficiency, times[-1], dac, adc, gene)
    report: dict[str, Any] = {"xbar_alloc": counted}
    if best[4] is not None:
        engine.evaluate_fitness(best[4], best[2], best[3], loginfo=report)
    evolution_algorithm.evaluate_components_energy = energy
    if best[4] is None:
        return None
    copies = [report[name]["duplication"] for name in engine.layer_list]
    return {
        "layers": dict(zip(engine.layer_list, zip(copies, counted))),  # noqa: B905
        "power_w": arrays * peak / ratio, "efficiency": best[0] / 1e9, "time_ns": best[1],
    }  # fmt: skip


def take_the_place_of_tqdm() -> None:
    """Put a bar that shows nothing in place of tqdm where it is not installed."""
    try:
        import tqdm  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        module = ModuleType("tqdm")
        module.tqdm = lambda items, **_: items  # type: ignore[attr-defined]
        sys.modules["tqdm"] = module


if __name__ == "__main__":
    main()
