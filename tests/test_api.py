"""The Python API: calls that other processes can make, progress that changes nothing, old files."""

from __future__ import annotations

import inspect
import json
import logging
import multiprocessing
import pickle
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import rramalloc
from rramalloc.errors import RramallocError, SpecError
from rramalloc.search.work import Work
from rramalloc.timing.latency_table import LatencyRow, LatencyTable
from rramalloc.timing.measured_layer import MeasuredLayer


def test_public_calls_are_tasks_of_other_processes() -> None:
    """By name, in a process that has imported nothing yet; each call is one object."""
    calls = [getattr(rramalloc, name) for name in dir(rramalloc) if name != "__version__"]
    assert [pickle.loads(pickle.dumps(call)) is call for call in calls] == [True] * len(calls)  # noqa: S301
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        task = pool.submit(rramalloc.optimize, "alexnet", arrays=300, work=0)
        assert task.result() == rramalloc.optimize("alexnet", arrays=300, work=0)
        with pytest.raises(SpecError, match="work"):
            pool.submit(rramalloc.optimize, "alexnet", arrays=300, work="x").result()


def test_progress_never_changes_a_result() -> None:
    told: list[tuple[int, int]] = []
    followed = rramalloc.optimize("alexnet", 400, on_progress=lambda best, bound: told.append((best, bound)))
    assert told[-1] == (followed.makespan, followed.lower_bound)
    assert followed == rramalloc.optimize("alexnet", 400)
    assert followed == rramalloc.optimize("alexnet", 400, progress=False)


NODES = [
    {"name": "in", "op": "input", "shape": [1, 6, 6]},
    {"name": "c", "op": "conv", "inputs": ["in"], "out_channels": 2, "kernel": 3},
]


NETWORK = rramalloc.Network.build("small", NODES)


class Steps:
    """A simulator whose figure is the makespan."""

    name = "steps"

    def evaluate(self, network: rramalloc.Network, allocation: rramalloc.Allocation) -> float:
        return allocation.makespan


def calls_with(argument: str) -> list[str]:
    """Names of the public calls that take an argument."""
    calls = {name: getattr(rramalloc, name) for name in dir(rramalloc)}
    return [
        name
        for name, call in calls.items()
        if inspect.isfunction(call) and argument in inspect.signature(call).parameters
    ]


def same_with_document(name: str, argument: str, given: Any) -> bool:
    """Whether a call says the same of an object and of the dict that its file holds."""
    network = rramalloc.Network.build("small", NODES)
    allocation = rramalloc.optimize(network, 4, work=0, hardware=machine())
    values: dict[str, Any] = {
        "network": network, "source": network, "arrays": 4, "allocation": allocation,
        "simulator": Steps(), "table": given,
    }  # fmt: skip
    call = getattr(rramalloc, name)
    taken = inspect.signature(call).parameters
    arguments = {key: value for key, value in values.items() if key in taken} | {"work": 0}
    arguments |= {"hardware": machine()} | {"methods": ["none"], "seeds": 1, "evaluations": 2}
    if name == "export":
        arguments |= {"to": "json"}
    if name == "evaluate":
        arguments |= {"chip": machine()}
    if name == "chiplet_cost":
        arguments |= {"placement": rramalloc.place(network, allocation, work=0)}
    if name == "explain":
        del arguments["allocation"]
    kept = {key: value for key, value in arguments.items() if key in taken}
    results = [call(**kept | {argument: value}) for value in (given, given.to_dict())]
    return bool(results[0].to_dict() == results[1].to_dict())


def machine() -> rramalloc.Hardware:
    """A hardware with all tables that a call may need."""
    document = rramalloc.load_hardware("isaac").to_dict()
    document["chip"] |= {"hop_ns_tile": 1.0, "hop_ns_chip": 10.0}
    document["chip"] |= {"bandwidth_tile_gb_s": 32.0, "bandwidth_chip_gb_s": 12.8}
    document["write"] = {"write_ns_per_row": 5.0}
    document["units"] = {
        "processors": 4, "storage_units": 4, "unit_bytes": 65536,
        "bandwidth_in_gb_s": 10.0, "bandwidth_out_gb_s": 10.0,
    }  # fmt: skip
    return rramalloc.Hardware.model_validate(document)


@pytest.mark.parametrize("name", [*calls_with("hardware"), "evaluate"])
def test_every_call_takes_hardware_as_a_dict(name: str) -> None:
    assert same_with_document(name, "chip" if name == "evaluate" else "hardware", machine())


@pytest.mark.parametrize("name", [*calls_with("latency_table"), "estimate_latency"])
def test_every_call_takes_a_latency_table_as_a_dict(name: str) -> None:
    network = rramalloc.Network.build("small", NODES)
    row = MeasuredLayer.of(network, network.nodes[1]).model_dump()
    table = LatencyTable(rows=(LatencyRow(**row, latency_ns=5000.0),))
    if name == "optimize_reload":
        with pytest.raises(SpecError, match=r"latency_table: .*which reload does not take"):
            same_with_document(name, "latency_table", table)
        return
    assert same_with_document(name, "table" if name == "estimate_latency" else "latency_table", table)


@pytest.mark.parametrize("name", [*calls_with("network"), *calls_with("source")])
def test_every_call_takes_a_network_as_a_dict(name: str) -> None:
    if name in (
        "convert",
        "estimate_latency",
        "export_check",
        "fold",
        "load",
        "measure_latency",
        "open_device",
    ):
        pytest.skip("writes a file, or takes the network by the same function as those below")
    assert same_with_document(name, "source" if name.startswith("chiplet") else "network", NETWORK)


def test_a_dict_of_another_form_is_refused_by_its_field() -> None:
    with pytest.raises(SpecError, match="network in memory: nodes: this field is missing"):
        rramalloc.load({"format": "rramalloc-network/1", "name": "x"})
    with pytest.raises(SpecError, match="input_values"):
        rramalloc.load(NETWORK.to_dict(), input_values={"x": 1})


def test_the_logger_tells_improvements_and_warnings(caplog: pytest.LogCaptureFixture) -> None:
    """The preset isaac-todaes has values that no source confirms, of which its results warn."""
    with caplog.at_level(logging.INFO, logger="rramalloc"):
        found = rramalloc.optimize("alexnet", 400, hardware="isaac-todaes", work=1)
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [text for level, text in told if level == "WARNING"] == [f"optimize: {w}" for w in found.warnings]
    assert found.warnings
    assert any(level == "INFO" and f"makespan {found.makespan}, bound" in text for level, text in told)


def test_the_logger_is_silent_unless_configured() -> None:
    program = "import rramalloc; rramalloc.inspect('alexnet', hardware='isaac-todaes')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_every_error_of_a_call_is_a_public_name() -> None:
    kinds = [RramallocError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        assert getattr(rramalloc, kind.__name__) is kind


def test_sweep_and_size_take_dicts_in_their_own(tmp_path: Path) -> None:
    hardware = rramalloc.load_hardware("isaac").to_dict()
    hardware["crossbar"]["cell_bits"] = 8
    spec = {"networks": "alexnet", "arrays": 2000, "methods": "none", "hardware": hardware}
    swept = rramalloc.sweep(spec, tmp_path / "swept", jobs=1)
    once = rramalloc.optimize("alexnet", 2000, method="none", hardware=hardware)
    assert [row["used"] for row in swept.rows()] == [once.arrays.used]
    networks = [{"network": "alexnet", "target": 5000}]
    sized = rramalloc.size({"networks": networks, "hardware": hardware, "minimise": "arrays"})
    assert sized.chip.hardware.crossbar.cell_bits == 8
    with pytest.raises(SpecError, match=r"hardware\[0\].*crossbar: this field is missing"):
        rramalloc.sweep(spec | {"hardware": {"name": "x"}}, tmp_path / "other")


def test_public_names_are_there_and_the_package_imports_nothing_heavy() -> None:
    for name in rramalloc.__all__:
        if name != "from_torch":
            assert getattr(rramalloc, name) is not None
    with pytest.raises(AttributeError, match="no attribute"):
        _ = rramalloc.nothing  # type: ignore[attr-defined]
    code = "import sys, rramalloc; print([m for m in ('numpy', 'pydantic', 'numba') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_allocation_of_weights_stored_once_is_refused(tmp_path: Path) -> None:
    """Earlier versions wrote `shared`: "copies" is what holds, "once" is not known any more."""
    allocation, path = rramalloc.optimize("alexnet", 200, method="none"), tmp_path / "a.json"
    document = allocation.to_dict()
    assert "shared" not in document["options"]
    for shared in ("copies", "once"):
        document["options"]["shared"] = shared
        path.write_text(json.dumps(document))
        if shared == "copies":
            assert rramalloc.simulate("alexnet", path).makespan == allocation.makespan
        else:
            with pytest.raises(SpecError, match="shared"):
                rramalloc.simulate("alexnet", path)


@pytest.mark.quick
def test_targets_have_units_in_python_too() -> None:
    same = {"hardware": "isaac", "progress": False}
    plain = rramalloc.optimize("alexnet", target_throughput=10_000.0, **same)
    assert rramalloc.optimize("alexnet", target_throughput="10k", **same) == plain
    assert rramalloc.optimize("alexnet", target_ns="20ms", **same).options.target_ns == 20e6
    sized = rramalloc.size(
        {"networks": [{"network": "alexnet", "target_throughput": "10k"}], "hardware": "isaac"}
    )
    assert sized.networks[0].arrays == plain.arrays.used
    with pytest.raises(SpecError, match="target_throughput: must be a number of inputs/s"):
        rramalloc.optimize("alexnet", target_throughput="10 parsecs", **same)


@pytest.mark.quick
def test_an_object_that_is_wanted_is_described() -> None:
    with pytest.raises(SpecError, match="simulator: must be a text or a Simulator, got a function"):
        rramalloc.tune("alexnet", 400, lambda: 1)  # type: ignore[arg-type]


def test_ctrl_c_is_raised_once_the_best_is_kept() -> None:
    """As the command does: what was found until then is an answer like any other."""

    def press(best: int, bound: int) -> None:
        if not stop.interrupted:
            signal.raise_signal(signal.SIGINT)

    stop = Work(work=100_000, on_progress=press)
    with pytest.raises(KeyboardInterrupt):
        rramalloc.optimize("densenet121", arrays=8192, stop=stop)
    assert stop.best.stopped == "interrupted"
    assert rramalloc.simulate("densenet121", stop.best).makespan == stop.best.makespan
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
