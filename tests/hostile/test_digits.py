"""Whole numbers of more digits than Python writes: one sentence of this package, wherever they stand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import run

import rramalloc
from rramalloc.errors import RramallocError

LONG = 10**5000
DECIMAL = "9" * 5000
HEXADECIMAL = "0x" + "f" * 5000
INPUT = '{"name": "x", "op": "input", "shape": [%s, 1, 1]}'
BY_HAND = f'{{"format": "rramalloc-network/1", "name": "n", "nodes": [{INPUT}]}}'
FILES = {
    "copies.csv": f"name,copies\nconv1,{DECIMAL}\n",
    "block.csv": f"name,copies,block\nconv1,1,1x{DECIMAL}\n",
    "copies.json": f'{{"copies": {{"conv1": {DECIMAL}}}}}',
    "network.json": BY_HAND % DECIMAL,
    "layers.csv": f"name,op,in_channels\na,conv,{DECIMAL}\n",
    "bits.csv": f"layer,weight_bits,input_bits,sensitivity\nconv1,{DECIMAL},8,0\n",
    "hex.toml": f'name = "a"\ncrossbar = {{ wordlines = {HEXADECIMAL}, bitlines = 4, cell_bits = 2 }}\n',
    "decimal.toml": f'name = "a"\ncrossbar = {{ wordlines = {DECIMAL}, bitlines = 4, cell_bits = 2 }}\n',
    "spec.toml": f'networks = ["alexnet"]\narrays = [{HEXADECIMAL}]\nwork = 0\n',
}
COMMANDS = (
    "simulate alexnet --allocation copies.csv",
    "simulate alexnet --allocation block.csv",
    "simulate alexnet --allocation copies.json",
    "inspect network.json",
    "inspect layers.csv",
    "optimize alexnet --arrays 700 --bits bits.csv --sensitivity 1",
    "inspect alexnet --hardware hex.toml",
    "inspect alexnet --hardware decimal.toml",
    f"inspect alexnet --crossbar {DECIMAL}x4",
    f"inspect alexnet --hardware isaac --set timing.read_ns={HEXADECIMAL}",
    f"inspect alexnet --hardware isaac --set timing.ns_per_pixel={{a={HEXADECIMAL}}}",
    f"optimize alexnet --arrays {DECIMAL}",
    f"optimize alexnet --arrays 400 --seed {DECIMAL}",
    f"optimize alexnet --arrays 400 --copies conv1={DECIMAL}",
    f"explain alexnet --arrays 2000 --hardware isaac --what-if timing.read_ns={HEXADECIMAL}",
    f"size vgg11 --target-throughput 2k --hardware isaac --choose timing.columns_per_adc={HEXADECIMAL},16",
    "sweep spec.toml -o rows",
)


def said(text: str) -> bool:
    """One short sentence, which does not speak of Python's own limit."""
    return 0 < len(text) < 400 and "internal error" not in text and "set_int_max_str_digits" not in text


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[:40])
def test_a_long_number_of_a_command_or_a_file(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    done = run(*command.split())
    assert done.code in (1, 2)
    assert said(done.err), done.err[:400]


CALLS: dict[str, Callable[[int], Any]] = {
    "copies": lambda number: rramalloc.optimize("alexnet", 400, copies={"conv1": number}),
    "range": lambda number: rramalloc.optimize("alexnet", 400, copies={"conv1": (1, number)}),
    "seed": lambda number: rramalloc.optimize("alexnet", 400, seed=number),
    "arrays": lambda number: rramalloc.optimize("alexnet", number),
    "crossbar": lambda number: rramalloc.inspect("alexnet", crossbar=(number, 4)),
    "set_values": lambda number: rramalloc.inspect(
        "alexnet", hardware="isaac", set_values={"timing.read_ns": number}
    ),
    "what_if": lambda number: rramalloc.explain(
        "alexnet", 2000, hardware="isaac", what_if=[{"timing.read_ns": number}]
    ),
    "with_values": lambda number: rramalloc.load_hardware("isaac").with_values({"timing.read_ns": number}),
    "with_bits": lambda number: rramalloc.load("alexnet").with_bits({"conv1": (number, 8)}),
    "in_turns": lambda number: rramalloc.load("alexnet").in_turns(True, number),
    "simulate": lambda number: rramalloc.simulate("alexnet", {"conv1": number}),
}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_long_number_of_a_call(call: Callable[[int], Any], sign: int) -> None:
    with pytest.raises(RramallocError) as raised:
        call(sign * LONG)
    assert said(str(raised.value))
