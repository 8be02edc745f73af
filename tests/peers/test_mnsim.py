"""Exports run in MNSIM 2.0: it stores and times our copies on as many arrays as the export counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from peers.reports import allocated, run_export
from peers.tools import build, needs_tools

import rramalloc
from rramalloc.errors import UnsupportedError
from rramalloc.hardware.loader import load_hardware
from rramalloc.hardware.tables import Timing
from rramalloc.importers import load


@needs_tools
@pytest.mark.parametrize("network", ["alexnet", "vgg11", "vgg16", "vgg19", "resnet18", "resnet50"])
def test_a_network_runs_to_the_end(network: str, tmp_path: Path) -> None:
    """`run.py` itself fails where MNSIM counts other arrays than the export."""
    allocation = allocated(network, 1.5, "mnsim")
    report = run_export(network, allocation, "mnsim", "mnsim", tmp_path / "out", build("mnsim"))
    shapes = load(network).shapes
    for layer in allocation.layers:
        assert report.copies[layer.name] == min(layer.copies, shapes[layer.name].width)
    assert report.values["latency_ns"] > 0


@needs_tools
@pytest.mark.parametrize("hardware", ["plain", "pimcomp", "raella", "prime"])
def test_other_hardware_runs(hardware: str, tmp_path: Path) -> None:
    """Cells of several bits, no [chip], tiles that are no square."""
    allocation = allocated("resnet18", 1.2, hardware)
    report = run_export("resnet18", allocation, "mnsim", hardware, tmp_path / "out", build("mnsim"))
    assert report.values["latency_ns"] > 0


ONE_GROUP = """
import json, sys, types
sys.path.insert(0, sys.argv[1])
sys.modules["torch"] = types.ModuleType("torch")  # PE_latency imports PyTorch and uses nothing of it
from MNSIM.Hardware_Model.PE import ProcessElement
from MNSIM.Latency_Model.PE_latency import PE_latency_analysis
config = sys.argv[1] + "/SimConfig.ini"
pe, time = ProcessElement(config), PE_latency_analysis(config, 256, 256, 0, 0, 9)
pe.calculate_PE_area(config)
pe.calculate_PE_read_power_fast(256, 256, 1, config)
parts = {"xbar": "xbar", "ADC": "ADC", "DAC": "DAC", "shiftreg": "shiftreg", "iReg": "iReg"}
watts = {name: getattr(pe, f"PE_{part}_read_power") for name, part in parts.items()}
energy = sum(watts[name] * getattr(time, f"{name}_latency") for name in watts)
area = pe.PE_area - pe.PE_inbuf_area
print(json.dumps([energy, time.computing_latency, area, pe.PE_xbar_num]))
"""


@needs_tools
def test_energy_area_and_time_of_one_array() -> None:
    """9 input bits, all rows and columns. Its two turns of rows and of columns follow from 128 converters.

    The preset has the cell's read alone as its time (docs/sources/peers.md); with 3.16 ns of the array, 3 of
    the DAC and 8 of the ADC in each turn, a description of the same array takes as long as the tool says.
    """
    command = [sys.executable, "-c", ONE_GROUP, str(build("mnsim"))]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    energy_nj, latency_ns, area_um2, arrays = json.loads(run.stdout.splitlines()[-1])
    hardware = load_hardware("mnsim")
    assert hardware.energy is not None
    assert hardware.energy.read_pj is not None
    assert 9 * hardware.energy.read_pj * arrays == pytest.approx(1000 * energy_nj, rel=0.1)
    assert hardware.energy.area_um2 == pytest.approx(area_um2 / arrays, rel=0.1)
    timing = Timing(read_ns=2 * (3.16 + 3 + 8), dac_bits=1, rows_per_read=128)
    assert timing.compute_ns(9, hardware.crossbar) == pytest.approx(latency_ns, rel=0.1)


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        ("squeezenet", "no layer for 'concat'"),
        ("mobilenet_v2", "no grouped convolution"),
        ("densenet121", "no layer for 'concat'"),
    ],
)
def test_what_it_cannot_express_is_refused_before_anything_is_written(network: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        rramalloc.export(network, {}, "mnsim", hardware="mnsim")
