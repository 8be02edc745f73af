"""Row: what is kept of one point of a sweep, a flat record with a column for every field."""

from __future__ import annotations

from typing import Any

from rramalloc.records import Record
from rramalloc.studies.sweep.point import Point, key_of, machine_of
from rramalloc.studies.sweep.sources import NetworkText

_ERROR_LENGTH = 500


class Row(Record):
    """One point: what was asked, and either what came of it or the error.

    network_sha256: of the graph; hardware: its name; crossbar: "ROWSxCOLUMNS"; bandwidth_gb_s: of the memory,
    None without one; arrays: the budget, arrays_asked: as the spec says it ("1024", "x2");
    minimum: arrays with every layer stored once; both None where the error came before they were known.
    From `used` to `seconds` as in an allocation, all None with an error; repaired: whether copies were taken
    away because what the method asked for did not fit. error_kind: class of the error; error: its first line;
    key: hash of all that the result depends on.
    """

    network: str
    network_sha256: str
    hardware: str
    crossbar: str
    cell_bits: int
    bandwidth_gb_s: float | None
    mapping: str
    fc: str
    arrays: int | None
    arrays_asked: str
    objective: str
    method: str
    seed: int
    work: int
    minimum: int | None = None
    used: int | None = None
    makespan: int | None = None
    interval: int | None = None
    lower_bound: int | None = None
    gap: float | None = None
    proof: str | None = None
    repaired: bool | None = None
    step_ns: float | None = None
    latency_ns: float | None = None
    throughput_per_s: float | None = None
    seconds: float | None = None
    error_kind: str | None = None
    error: str | None = None
    key: str


def asked(point: Point, network: NetworkText, hardware: str) -> dict[str, Any]:
    """What a row says before anything is computed; hardware: its document as JSON."""
    machine = machine_of(hardware, *point[2:5])
    crossbar, memory = machine.hardware.crossbar, machine.hardware.memory
    return {
        "network": network.name,
        "network_sha256": network.sha256,
        "hardware": machine.hardware.name,
        "crossbar": crossbar.size,
        "cell_bits": crossbar.cell_bits,
        "bandwidth_gb_s": None if memory is None else memory.bandwidth_gb_s,
        "mapping": point.mapping,
        "fc": point.fc,
        "arrays": point.arrays if isinstance(point.arrays, int) else None,
        "arrays_asked": str(point.arrays),
        "objective": point.objective,
        "method": point.method,
        "seed": point.seed,
        "work": point.work,
        "key": key_of(point, network.name, network.sha256, machine.sha256),
    }


def failed(told: dict[str, Any], error: BaseException) -> Row:
    """The row of a point that could not be computed."""
    lines = str(error).splitlines() or ["no reason given"]
    return Row(**told, error_kind=type(error).__name__, error=lines[0][:_ERROR_LENGTH])
