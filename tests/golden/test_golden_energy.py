"""Energy by components, of an independent program with exact fractions (golden/resources.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

import rramalloc
from rramalloc.errors import SpecError
from rramalloc.hardware.components import NM2_PER_UM2, array_area_nm2, array_leakage_mw
from rramalloc.hardware.hardware import Hardware
from rramalloc.network.network import Network
from rramalloc.records import parse
from rramalloc.timing.figures import ENERGY_AREA

_EVERY: list[dict[str, Any]] = json.loads((Path(__file__).parent / "resources.json").read_text())["cases"]
CASES = [case for case in _EVERY if case["part"] == "energy"]
ANSWERED = [case for case in CASES if "error" not in case["answer"]]
REFUSED = [case for case in CASES if "error" in case["answer"]]
_OF_LAYER = ("array_pj", "adc_pj", "row_pj", "dynamic_pj", "rows_used", "columns_used", "arrays", "batches")


def _hardware(case: dict[str, Any]) -> Hardware:
    return parse(TypeAdapter(Hardware), case["hardware"], "golden")


@pytest.mark.parametrize("case", ANSWERED, ids=lambda c: c["id"])
def test_energy_and_area(case: dict[str, Any]) -> None:
    answer, hardware = case["answer"], _hardware(case)
    given = {{"copies": "copies"}.get(name, name): value for name, value in case["allocation"].items()}
    network = Network.from_document(case["network"], "golden")
    result = rramalloc.simulate(network, given, hardware=hardware, **case["options"])
    for name in (*ENERGY_AREA, "makespan", "latency_ns", "arrays"):
        if name in answer:
            assert getattr(result, name) == pytest.approx(answer[name], rel=1e-12), name
    assert result.leakage_pj == result.static_pj
    area_nm2 = array_area_nm2(hardware)
    assert area_nm2 is not None
    assert area_nm2 / NM2_PER_UM2 == answer["array_um2"]
    assert array_leakage_mw(hardware) == pytest.approx(answer["array_mw"], rel=1e-12)
    assert {layer.name for layer in result.layers} == set(answer["layers"])
    for layer in result.layers:
        for name in _OF_LAYER:
            assert getattr(layer, name) == pytest.approx(answer["layers"][layer.name][name], rel=1e-12), name


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c["id"])
def test_a_field_of_an_adc_needs_its_columns(case: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"energy\.adc_pj.*columns_per_adc"):
        _hardware(case)
