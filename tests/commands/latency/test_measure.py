"""Plans, devices and the measurement: order, effort, resumption after any end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from commands.latency.small import DISTINCT, NETWORK

from rramalloc.choices import AUXILIARY_LAYERS, AuxiliaryLayer
from rramalloc.commands.latency.device import Settings, SimulatedDevice, open_device
from rramalloc.commands.latency.estimate import estimate_latency
from rramalloc.commands.latency.fit import fit_latency
from rramalloc.commands.latency.measure import Repetition, measure_latency
from rramalloc.commands.latency.plan import MeasurePlan, SampleFile, TimedRun, read_samples
from rramalloc.errors import DeviceError, FileError, MissingLatencyError, SpecError
from rramalloc.network.network import Network

pytestmark = pytest.mark.quick

QUICK = Repetition(width=0.05, least=8, most=40)


class Recording(SimulatedDevice):
    """Keeps the order of what it was asked; stops like Ctrl-C after some visits."""

    def __init__(self, visits: int | None = None, settings: Settings | None = None) -> None:
        super().__init__(NETWORK, settings or Settings(), 0)
        self.asked: list[tuple[str, int, int]] = []
        self._visits = visits

    def sample(self, run: TimedRun, first: int, count: int) -> list[float]:
        if self._visits is not None and len(self.asked) >= self._visits:
            raise KeyboardInterrupt
        self.asked.append((run.text, first, count))
        return super().sample(run, first, count)


@pytest.mark.parametrize("auxiliary", AUXILIARY_LAYERS)
def test_plan_has_each_distinct_layer_once(auxiliary: AuxiliaryLayer) -> None:
    plan = MeasurePlan.of(NETWORK, auxiliary)
    kinds = Counter(run.kind for run in plan.runs)
    assert [run.layer.operator for run in plan.runs if run.kind == "layer" and run.layer] == list(DISTINCT)
    assert kinds["network"] == 1
    assert len({run.text for run in plan.runs}) == len(plan.runs)
    alone = {run.auxiliary.text for run in plan.runs if run.kind == "auxiliary" and run.auxiliary}
    for run in plan.runs:
        if run.kind == "layer":
            assert run.auxiliary is not None
            assert run.auxiliary.text in alone
            assert run.output_bytes <= max(4 * 32 * 32, 4 * 10)
    whole = plan.runs[-1]
    assert (whole.input_bytes, whole.output_bytes) == (4 * 3 * 32 * 32, 4 * 10)


@pytest.mark.parametrize("visits", [0, 60])
def test_an_interrupted_measurement_goes_on(tmp_path: Path, visits: int) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    measure_latency(NETWORK, Recording(), whole, effort=QUICK)
    first, second = Recording(visits), Recording()
    with pytest.raises(KeyboardInterrupt):
        measure_latency(NETWORK, first, parts, effort=QUICK)
    before = parts.read_bytes()
    measure_latency(NETWORK, second, parts, effort=QUICK)
    assert parts.read_bytes().startswith(before)
    assert not {(t, n) for t, n, _ in first.asked} & {(t, n) for t, n, _ in second.asked}
    assert fit_latency(parts) == fit_latency(whole)
    assert measure_latency(NETWORK, Recording(0), parts, effort=QUICK).executions == 0


def test_every_cut_of_the_file_is_continued(tmp_path: Path) -> None:
    """Whatever a killed writer left, whole lines are kept and the rest is measured again."""
    path = tmp_path / "s"
    measure_latency(NETWORK, Recording(), path, effort=QUICK)
    content, table = path.read_bytes(), fit_latency(path)
    head = content.index(b"\n") + 1
    for cut in (0, 1, head - 1, head, head + 1, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        measure_latency(NETWORK, Recording(), path, effort=QUICK)
        assert fit_latency(path) == table, cut


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "s"
    measure_latency(NETWORK, Recording(), path, effort=QUICK)
    header, _ = read_samples(path)
    with SampleFile(path, header), pytest.raises(FileError, match="another process"):
        measure_latency(NETWORK, Recording(), path, effort=QUICK)
    measure_latency(NETWORK, Recording(), path, effort=QUICK)


def test_an_estimate_is_the_sum_of_the_layers(tmp_path: Path) -> None:
    """Without noise the sum is what the whole network takes; b and c count twice."""
    device = SimulatedDevice(NETWORK, Settings(noise=0.0), 0)
    measure_latency(NETWORK, device, tmp_path / "s")
    estimate = estimate_latency(NETWORK, fit_latency(tmp_path / "s"))
    names = [layer.name for layer in estimate.layers]
    assert names == ["a", "relu", "pool", "b", "c", "sum", "fc"]
    assert estimate.total_ns == pytest.approx(sum(layer.latency_ns or 0 for layer in estimate.layers))
    assert estimate.error == pytest.approx(0.0, abs=1e-6)
    assert sum(layer.share for layer in estimate.layers) == pytest.approx(1.0)
    wider = Network.build(
        "wide",
        [
            {"name": "in", "op": "input", "shape": [3, 9, 9]},
            {"name": "x", "op": "conv", "inputs": ["in"], "out_channels": 2, "kernel": 3},
        ],
    )
    with pytest.raises(MissingLatencyError, match="x: conv 3x9x9"):
        estimate_latency(wider, fit_latency(tmp_path / "s"))


def test_replayed_times_give_the_table_they_came_from(tmp_path: Path) -> None:
    measure_latency(NETWORK, Recording(), tmp_path / "s", effort=QUICK)
    header, times = read_samples(tmp_path / "s")
    rows = [
        f"{run.text},{time!r}" for run, found in zip(header.plan.runs, times, strict=True) for time in found
    ]
    path = tmp_path / "times.csv"
    path.write_text("\n".join(["run,time_ns", *rows]) + "\n")
    device = open_device(f"replay:{path}", NETWORK, threads=1, seed=0)
    measure_latency(NETWORK, device, tmp_path / "r", effort=QUICK)
    original, again = fit_latency(tmp_path / "s"), fit_latency(tmp_path / "r")
    assert again.overhead == original.overhead
    assert [row.latency_ns for row in again.rows] == [row.latency_ns for row in original.rows]
    assert {row.device for row in again.rows} == {"replay of times.csv"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("run,time_ns\n", "no times"),
        ("run,time_ns\nx,-1\n", "not negative"),
        ("run\nx\n", "time_ns"),
        ("run,time_ns\nelsewhere,5\n", "cannot do any layer"),
    ],
)
def test_hostile_replays(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "times.csv"
    path.write_text(text)
    with pytest.raises((SpecError, DeviceError), match=words):
        measure_latency(NETWORK, open_device(f"replay:{path}", NETWORK, threads=1, seed=0), tmp_path / "s")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpu", "not known"),
        ("simulated:speed=1", "no setting"),
        ("simulated:noise=2", "from 0 to 1"),
        ("simulated:c=nan", "from 0"),
    ],
)
def test_devices_that_there_are_not(text: str, words: str) -> None:
    with pytest.raises(DeviceError, match=words):
        open_device(text, NETWORK, threads=1, seed=0)
