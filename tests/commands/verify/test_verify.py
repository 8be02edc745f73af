"""Whole networks: equal however they are mapped and placed, and never equal on wrong arrays or times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest
from commands.verify.naive import hardware, network, random_block, random_hardware, task, verified
from hypothesis import given, settings
from laws.strategies import ALL_PIXELS, ANY, IMAGES, by_name, random_copies, random_network, randoms
from onnx import helper, numpy_helper

from rramalloc.choices import MAPPINGS
from rramalloc.commands.place.placement import PlacedArray
from rramalloc.commands.verify.reference import quantised, weights_in
from rramalloc.commands.verify.verify import EarlyReadError, verify
from rramalloc.errors import UnsupportedError
from rramalloc.importers import load
from rramalloc.mapping.options import MappingOptions
from rramalloc.network.network import Network
from rramalloc.timing.simulate import simulate
from rramalloc.timing.stage_graph import StageGraph

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.mark.parametrize("images", [1, 4])
@settings(max_examples=70, deadline=None)
@given(random=randoms)
def test_any_network_is_equal(images: int, random: Random) -> None:
    """Values, and no window read before its inputs are there; in modes every stage has blocks of its own."""
    mapping, blocks = random.choice((*MAPPINGS, "sdk")), {}
    transposed = ("conv_transpose", "conv_transpose") if mapping != "whole_kernel" else ()
    source = random_network(random, nodes=7, extent=6, ops=(*ANY, *ALL_PIXELS, *transposed))
    if images > 1:
        kept = (op for op in IMAGES if op != "conv_transpose" or transposed)
        source = random_network(random, nodes=7, extent=4, ops=tuple(kept), images=images)
    graph = StageGraph.build(source, MappingOptions(fc=random.choice(("host", "crossbar"))))
    if mapping == "sdk":
        chosen = [random_block(random, source, stage) for stage in graph.stages]
        blocks, graph = dict(zip(graph.names, chosen, strict=True)), graph.in_blocks(chosen)
    copies = by_name(graph, random_copies(random, graph))
    fc = "crossbar" if set(copies) == {stage.name for stage in source.stages} else "host"
    machine = random_hardware(random, 16, random.choice((1, 8, 40)) if blocks else 1)
    what = task(source, copies, machine, mapping, fc=fc, blocks=blocks)
    result = verified(what, seed=random.randint(0, 9), images=random.randint(1, 2))
    assert result.verdict == "equal", result.difference
    assert result.values == result.options.images * sum(s.channels * s.pixels for s in source.shapes.values())


def two_layers() -> tuple[Network, dict[str, int]]:
    """Layers a and b of equal blocks: 18 rows and 12 columns in arrays of 8 x 8 are 3 x 2 blocks each."""
    conv = {"op": "conv", "out_channels": 6, "kernel": 3, "pads": 1}
    nodes = [
        {"name": "in", "op": "input", "shape": [2, 4, 4]},
        {"name": "a", "inputs": ["in"], **conv},
        {"name": "s", "op": "select", "inputs": ["a"], "channels": 2},
        {"name": "b", "inputs": ["s"], **conv},
    ]
    return Network.build("two", nodes), {"a": 3, "b": 2}


def exchanged(arrays: list[PlacedArray], one: int, other: int, *fields: str) -> list[PlacedArray]:
    """Two entries with these fields of each other."""
    result = list(arrays)
    for at, source in ((one, other), (other, one)):
        result[at] = arrays[at].model_copy(update={f: getattr(arrays[source], f) for f in fields})
    return result


@pytest.mark.parametrize("first", [0, 7, 17])
@pytest.mark.parametrize("fault", ["layer", "replica", "drop", "twice", "overwritten", "mixed"])
def test_wrong_arrays_are_never_equal(fault: str, first: int) -> None:
    """Past the check of placements: the arrays themselves must give it away."""
    source, copies = two_layers()
    right = task(source, copies, hardware())
    arrays = list(right.arrays)
    assert len(arrays) == 30
    assert verified(right).verdict == "equal"
    match fault:
        case "layer":
            other = "b" if arrays[first].layer == "a" else "a"
            wrong = list(arrays)
            wrong[first] = arrays[first].model_copy(update={"layer": other})
        case "replica":
            wrong = list(arrays)
            wrong[first] = arrays[first].model_copy(update={"replica": (arrays[first].replica + 1) % 3})
        case "drop":
            wrong = arrays[:first] + arrays[first + 1 :]
        case "twice":
            wrong = [*arrays, arrays[first].model_copy(update={"index": 99})]
        case "overwritten":
            wrong = list(arrays)
            wrong[first] = arrays[first].model_copy(update={"index": arrays[first + 6].index})
        case _:
            wrong = exchanged(arrays, first, 28, "row_block", "column_block")
    result = verified(right._replace(arrays=wrong))
    assert result.verdict == "different"
    assert result.difference is not None
    assert result.difference.layer in ("a", "b")


def test_a_window_read_too_early_is_told() -> None:
    """b starts in step 2 instead of 3. Layer a computes windows 3k ... 3k + 2 in step k; b begins with its
    windows 0 and 1, which need windows 5 and 6 of a: written by steps 2 and 3.
    """
    source, copies = two_layers()
    what = task(source, copies, hardware())
    timing = simulate(StageGraph.build(source), [3, 2])
    assert timing.graph.names == ("a", "b")
    starts = timing.starts.copy()
    starts[timing.first[1] :] -= 1
    early = replace(timing, starts=starts)
    with pytest.raises(EarlyReadError) as raised:
        verified(what, timing=early)
    error = raised.value
    assert (error.layer, error.window, error.step, error.written) == ("b", 1, 2, 3)
    assert "'b': window 1 is read in step 2" in str(error)


def test_adc_with_enough_bits_is_equal_and_with_few_is_not() -> None:
    """18 rows in arrays of 8, cells of 2 bits, one input bit a read: a column is at most 24, of 5 bits."""
    source, copies = two_layers()
    what = task(source, copies, hardware(timing={"read_ns": 1.0, "dac_bits": 1}))
    assert verified(what, adc_bits=5).verdict == "equal"
    errors = []
    for bits in (4, 3, 1):
        result = verified(what, adc_bits=bits)
        assert result.verdict == "approximate"
        assert result.difference is None
        errors.append(result.layers[0].relative_error)
    assert 0 < errors[0] < errors[1] < errors[2]


def test_what_cannot_be_exact_is_refused() -> None:
    source = network([4, 3, 3], out_channels=2, kernel=3)
    with pytest.raises(UnsupportedError, match=r"'c'.*take 5[0-9] bits, exact arithmetic has 53"):
        verify(source, {}, hardware=hardware((64, 64), weight_bits=32, cell_bits=8, bits=18))


@pytest.mark.parametrize(
    ("shape", "conv", "reason"),
    [
        ([64, 3000, 3000], {"out_channels": 2, "kernel": 1}, "its tensors take .* MiB, the limit is 4096"),
        ([1, 1, 1], {"out_channels": 1, "kernel": 1, "pads": 40_000, "stride": 40_000}, "its tensors take"),
        ([2**16, 1, 1], {"out_channels": 2**16, "kernel": 1}, "its weights take .* MiB"),
        ([1, 400, 400], {"out_channels": 1, "kernel": 400}, "its kernel has 160000 positions"),
        ([64, 400, 400], {"out_channels": 64, "kernel": 150}, "takes [0-9]+ products"),
    ],
)
def test_what_is_too_large_is_refused(shape: list[int], conv: dict[str, int], reason: str) -> None:
    source = network(shape, **conv)
    with pytest.raises(UnsupportedError, match=reason):
        verified(task(source, {}, hardware(), arrays=[]))


def test_quantised_weights() -> None:
    assert quantised(np.array([-1.0, 0.5, 0.26]), 4).tolist() == [-7, 4, 2]
    assert quantised(np.array([-3, 5]), 4).tolist() == [-3, 5]
    assert quantised(np.zeros(2), 4).tolist() == [0, 0]
    assert quantised(np.array([-2.0, 1.0]), 1).tolist() == [-1, 0]


def onnx_file(path: Path, weights: np.ndarray) -> Path:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[1, 1, 1, 1]),
            helper.make_node("Flatten", ["y"], ["f"], name="flat"),
            helper.make_node("Gemm", ["f", "g"], ["z"], name="fc", transB=0),
        ],
        "g",
        [info("x", 1, [1, 2, 3, 3])],
        [info("z", 1, [1, 2])],
        [
            numpy_helper.from_array(weights, "w"),
            numpy_helper.from_array(np.arange(72, dtype=np.float32).reshape(36, 2), "g"),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_weights_of_an_onnx_file(tmp_path: Path) -> None:
    weights = np.linspace(-1, 1, 4 * 2 * 9).astype(np.float32).reshape(4, 2, 3, 3)
    path = onnx_file(tmp_path / "small.onnx", weights)
    result = verify(path, {"conv": 2}, hardware=hardware((16, 8)))
    assert (result.verdict, result.options.placed) == ("equal", "in order")
    assert [layer.weights for layer in result.layers] == ["file", "file"]
    found = weights_in(path, load(path))
    assert np.array_equal(found["conv"], weights)
    assert found["fc"][1, :, 0, 0].tolist() == list(range(1, 72, 2))  # (inputs, outputs) turned round
    held_place = onnx_file(tmp_path / "light.onnx", np.ones_like(weights))
    result = verify(held_place, {}, hardware=hardware((16, 8)))
    assert [layer.weights for layer in result.layers] == ["random", "file"]
    assert "1 layers, first 'conv'" in result.warnings[-1]


def test_weights_of_a_transposed_convolution(tmp_path: Path) -> None:
    """(inputs, outputs of a group, kernel) in the file, and no kernel turned round."""
    weights = np.arange(4 * 3 * 2 * 3, dtype=np.float32).reshape(4, 3, 2, 3)
    info = helper.make_tensor_value_info
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="up", strides=[2, 1], group=2)
    graph = helper.make_graph(
        [node],
        "g",
        [info("x", 1, [1, 4, 3, 3])],
        [info("y", 1, [1, 6, 6, 5])],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "up.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    found = weights_in(path, load(path))["up"]
    assert found.shape == (6, 2, 2, 3)
    assert found[4, 1].tolist() == weights[3, 1].tolist()  # output 1 and input 1 of the second group
    result = verify(path, {"up": 3}, hardware=hardware((16, 8)))
    assert (result.verdict, result.layers[0].weights) == ("equal", "file")
