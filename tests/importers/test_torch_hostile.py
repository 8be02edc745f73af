"""Archives of torch.export that would run code: torch writes Python with their names and evaluates sizes."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import io
import json
import re
import typing
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._export.serde import schema  # noqa: E402

from rramalloc.errors import FileError, RramallocError, SpecError, UnsupportedError  # noqa: E402
from rramalloc.importers import torch as importer  # noqa: E402

CODE = "__import__('builtins').__dict__.update(ran=1)"
DROPPED = {"fqn", "in_spec", "out_spec", "forward_arg_names", "module_call_graph", "guards_code"}
DROPPED |= {"treespec_namedtuple_fields", "field_names", "type", "index"}
"""Fields that are never handed to torch as the file has them."""


def tensor(*sizes: Any) -> dict[str, Any]:
    whole = [size if isinstance(size, dict) else {"as_int": size} for size in sizes]
    return {
        "dtype": 7,
        "sizes": whole,
        "requires_grad": False,
        "device": {"type": "cuda", "index": 1},
        "strides": [{"as_int": 1}] * len(sizes),
        "storage_offset": {"as_int": 0},
        "layout": 7,
    }


def program() -> dict[str, Any]:
    """A convolution 3x3 of 3 to 4 channels, as torch.export.save writes it."""
    arguments = {"input": "x", "weight": "p_conv_weight"}
    node = {
        "target": "torch.ops.aten.conv2d.default",
        "inputs": [{"name": k, "arg": {"as_tensor": {"name": v}}, "kind": 1} for k, v in arguments.items()],
        "outputs": [{"as_tensor": {"name": "conv2d"}}],
        "metadata": {"nn_module_stack": "L__self__,,m.M;L__self__conv,conv,torch.nn.modules.conv.Conv2d"},
        "is_hop_single_tensor_return": None,
        "name": "conv2d",
    }
    weight = {"parameter": {"arg": {"name": "p_conv_weight"}, "parameter_name": "conv.weight"}}
    graph = {
        "inputs": [{"as_tensor": {"name": "p_conv_weight"}}, {"as_tensor": {"name": "x"}}],
        "outputs": [{"as_tensor": {"name": "conv2d"}}],
        "nodes": [node],
        "tensor_values": {
            "x": tensor(1, 3, 8, 8), "p_conv_weight": tensor(4, 3, 3, 3), "conv2d": tensor(1, 4, 6, 6)
        },
        "sym_int_values": {},
        "sym_bool_values": {},
        "is_single_tensor_return": False,
        "custom_obj_values": {},
        "sym_float_values": {},
    }  # fmt: skip
    signature = {
        "input_specs": [weight, {"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],
        "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "conv2d"}}}}],
    }
    return {
        "graph_module": {
            "graph": graph,
            "signature": signature,
            "module_call_graph": [],
            "metadata": {},
            "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": 10},
        "range_constraints": {},
        "schema_version": {"major": 8, "minor": 20},
        "verifiers": ["TRAINING"],
        "torch_version": "2.13.0+cpu",
        "guards_code": [],
    }


def every_field() -> dict[str, Any]:
    """The program with every field that a program may have."""
    document = program()
    module = document["graph_module"]
    graph, specs = module["graph"], module["signature"]["input_specs"]
    size = {"as_expr": {"expr_str": "Add(Symbol('s0', positive=True), Integer(1))", "hint": {"as_int": 8}}}
    graph["tensor_values"]["dynamic"] = tensor(size, 2)
    graph["sym_int_values"]["sym_size"] = size
    graph["sym_bool_values"]["ge"] = {"as_expr": {"expr_str": "s0 >= 2", "hint": {"as_bool": True}}}
    graph["sym_float_values"]["truediv"] = {"as_expr": {"expr_str": "s0", "hint": {"as_float": 8.0}}}
    graph["custom_obj_values"]["packed"] = {"name": "packed", "class_fqn": "a.Packed"}
    part = {key: type(value)() for key, value in graph.items()}
    names = ("as_sym_int", "as_sym_float", "as_sym_bool")
    arguments: dict[str, Any] = {
        "as_none": True, "as_tensors": [{"name": "x"}], "as_int": 1, "as_ints": [1], "as_float": "-Infinity",
        "as_floats": ["NaN"], "as_string": "bchw,cd->bdhw", "as_strings": ["floor"], "as_scalar_type": 7,
        "as_memory_format": 1, "as_layout": 7, "as_device": {"type": "cuda", "index": 0}, "as_bool": True,
        "as_bools": [True], "as_graph": {"name": "true_graph_0", "graph": part},
        "as_operator": "_operator.add",
        "as_optional_tensors": [{"as_tensor": {"name": "x"}}, {"as_none": True}],
        "as_custom_obj": {"name": "packed", "class_fqn": "a.Packed"},
        "as_optional_tensor": {"as_tensor": {"name": "x"}}, "as_complex": {"real": 1.0, "imag": "Infinity"},
        "as_nested_tensors": [[{"name": "x"}]], "as_int_lists": [[1]], "as_float_lists": [[1.0]],
        "as_string_to_argument": {"key": {"as_int": 1}},
        **{name: {"as_name": "sym_size"} for name in names},
        **{f"{name}s": [{"as_name": "sym_size"}] for name in names},
    }  # fmt: skip
    inputs = [{"name": "", "arg": {kind: value}, "kind": 2} for kind, value in arguments.items()]
    graph["nodes"].append(graph["nodes"][0] | {"inputs": inputs, "target": "torch.ops.higher_order.cond"})
    named = {"name": "x"}
    specs += [
        {"buffer": {"arg": named, "buffer_name": "bn.mean", "persistent": True}},
        {"tensor_constant": {"arg": named, "tensor_constant_name": "lifted_0"}},
        {"custom_obj": {"arg": named | {"class_fqn": "a.Packed"}, "custom_obj_name": "packed"}},
        {"token": {"arg": named}},
        {"constant_input": {"name": "flag", "value": {"as_string": "same"}}},
    ]
    targets = {
        "loss_output": {}, "token": {}, "buffer_mutation": {"buffer_name": "bn.mean"},
        "gradient_to_parameter": {"parameter_name": "conv.weight"},
        "parameter_mutation": {"parameter_name": "conv.weight"},
        "gradient_to_user_input": {"user_input_name": "x"}, "user_input_mutation": {"user_input_name": "x"},
    }  # fmt: skip
    module["signature"]["output_specs"] += [{kind: {"arg": named} | rest} for kind, rest in targets.items()]
    spec = {"inputs": [], "outputs": [], "in_spec": "[1]", "out_spec": "[1]", "forward_arg_names": ["x"]}
    module["module_call_graph"].append({"fqn": "conv", "signature": spec})
    module["treespec_namedtuple_fields"]["a.Pair"] = {"field_names": ["first"]}
    document["range_constraints"]["s0"] = {"min_val": 2, "max_val": 64}
    document["guards_code"].append("L['x'].size()[0] == 1")
    return document


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], bool]]:
    """Yield where texts are, and whether they are keys."""
    if isinstance(value, dict):
        for key in value:
            yield (*path, key), True
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))
    elif isinstance(value, str):
        yield path, False


def planted(document: str, path: tuple[Any, ...], *, is_key: bool, text: str) -> Any:
    changed = place = json.loads(document)
    for key in path[:-1]:
        place = place[key]
    place[text if is_key else path[-1]] = place.pop(path[-1]) if is_key else text
    return changed


def written(document: Any, path: Path, **others: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("n/models/model.json", json.dumps(document))
        for number, content in enumerate(others.values()):
            archive.writestr(f"n/{number}/model_weights_config.json", content)
    return path


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The graphs that torch would read."""
    read = []

    def load(archive: io.BytesIO) -> None:
        with zipfile.ZipFile(archive) as entries:
            names = [name for name in entries.namelist() if name.endswith(".json")]
            read.append("\n".join(entries.read(name).decode() for name in names))
        raise ValueError("it is not read in this test")

    monkeypatch.setattr(torch.export, "load", load)
    return read


def keys(value: Any) -> set[str]:
    own = set(value) if isinstance(value, dict) else set()
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return own.union(*map(keys, parts))


def fields(kind: Any, known: set[Any]) -> set[str]:
    """Return the fields of a class of torch's schema and of all classes that it is made of."""
    if kind in known:
        return set()
    known.add(kind)
    if not dataclasses.is_dataclass(kind):
        return set().union(*(fields(part, known) for part in typing.get_args(kind)))
    hints = typing.get_type_hints(kind, vars(schema))
    return set(hints).union(*(fields(hint, known) for hint in hints.values())) - {"_type"}


def test_every_field_of_a_program_is_known(tmp_path: Path, handed: list[str]) -> None:
    with pytest.raises(FileError, match="not read in this test"):
        importer.read(written(every_field(), tmp_path / "n.pt2"))
    own = fields(schema.ExportedProgram, set())
    assert own <= keys(every_field())
    assert own - DROPPED <= keys(json.loads(handed[0].split("\n")[0]))
    for text in ("bchw,cd->bdhw", "Symbol('s0', positive=True)", "s0 >= 2", "-Infinity", "bn.mean"):
        assert f'"{text}' in handed[0] or f"({text}" in handed[0]


TEXTS = (
    "junk=(boom()),*", 'a"+boom()+"', "a')+boom()+('", "a\n boom()\n", "boom()", "Symbol('boom()')",
    "boom[0]", "Max('boom()', 1)", "boom() if 1 else 0", "torch.ops.aten.x.boom()",
    "Symbol('s0')[boom()]", "{boom()}",
    "boom\u0661()", "x=boom()", "boom.x", "boom\"", "boom'", "boom\\",
)  # fmt: skip


def test_no_field_brings_code_to_torch(tmp_path: Path, handed: list[str]) -> None:
    """Each text of an archive in turn, and each name of a field, is replaced by one that is code."""
    document, path = json.dumps(every_field()), tmp_path / "n.pt2"
    found = {
        (is_key, *(part for part in place[-4:] if isinstance(part, str))): place
        for place, is_key in places(json.loads(document))
    }
    assert len(found) > 250
    for number, ((is_key, *_), place) in enumerate(found.items()):
        text = TEXTS[number % len(TEXTS)]
        with contextlib.suppress(RramallocError):
            importer.read(written(planted(document, place, is_key=bool(is_key), text=text), path))
        assert not handed or not re.search(r"boom[^\w.-]", handed.pop()), (place, text)


@pytest.mark.parametrize(
    "path", ["conv-1.weight", "__class__.x.weight", "global.weight", 'q"t.0.weight', "\u00e9 x.weight"]
)
def test_paths_of_modules_are_spelled_with_what_python_reads(path: str, tmp_path: Path) -> None:
    document = program()
    document["graph_module"]["signature"]["input_specs"][0]["parameter"]["parameter_name"] = path
    network = importer.read(written(document, tmp_path / "n.pt2"))
    spelled = {
        "__class__.x": "u__class__.x",
        "global": "global_",
        'q"t.0': "q_u0022_t.0",
        "\u00e9 x": "_u00e9__u0020_x",
    }
    assert [stage.name for stage in network.stages] == [spelled.get(path[:-7], path[:-7])]


@pytest.mark.parametrize("place", ["tensor", "parameter", "dimension", "argument"])
def test_code_of_an_archive_is_not_run(place: str, tmp_path: Path) -> None:
    document = program()
    module = document["graph_module"]
    graph = module["graph"]
    if place == "tensor":
        name = f"junk=({CODE}),*"
        graph["inputs"].insert(0, {"as_tensor": {"name": name}})
        graph["tensor_values"][name] = tensor(4)
        spec = {"parameter": {"arg": {"name": name}, "parameter_name": "junk"}}
        module["signature"]["input_specs"].insert(0, spec)
    elif place == "parameter":
        code = CODE.replace("'", "\\'").replace(".", "\\x2e")
        path = f"a\"+eval('{code}')+\"b.weight"
        module["signature"]["input_specs"][0]["parameter"]["parameter_name"] = path
    elif place == "dimension":
        size = {"as_expr": {"expr_str": f"Max('{CODE}', 8)", "hint": {"as_int": 8}}}
        graph["tensor_values"]["x"]["sizes"][2] = size
    else:
        part = {key: [] if isinstance(value, list) else {} for key, value in graph.items()}
        part |= {"is_single_tensor_return": False}
        graphs = [
            {"name": "", "arg": {"as_graph": {"name": f"a, {CODE}#", "graph": part}}, "kind": 1},
            {"name": f"a={CODE}, b", "arg": {"as_int": 1}, "kind": 2},
        ]
        graph["nodes"].append({"target": "torch.ops.higher_order.cond", "inputs": graphs, "outputs": []})
    with contextlib.suppress(RramallocError):
        importer.read(written(document, tmp_path / "n.pt2"))
    assert vars(builtins).pop("ran", None) is None


@pytest.mark.parametrize(
    "target",
    [
        "torch.os.system",
        "torch.ops.load_library",
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.__dict__.clear",
        "torch.ops.aten.__class__.mro",
        "torch.ops.aten._dir.clear",
        "torch.ops.aten.name.format",
        "torch.ops.aten.add.overloads",
        "builtins.exec",
    ],
)
def test_operators_that_no_network_has_are_not_looked_up(
    target: str, tmp_path: Path, handed: list[str]
) -> None:
    document = program()
    document["graph_module"]["graph"]["nodes"][0]["target"] = target
    with pytest.raises(UnsupportedError, match="no operator of PyTorch's own libraries"):
        importer.read(written(document, tmp_path / "n.pt2"))
    assert not handed


@pytest.mark.parametrize(
    "target", ["add.Tensor", "__or__.Tensor", "__ilshift__.Scalar", "_native_batch_norm.out"]
)
def test_operators_of_networks_are_handed_over(target: str, tmp_path: Path, handed: list[str]) -> None:
    document = program()
    document["graph_module"]["graph"]["nodes"][0]["target"] = f"torch.ops.aten.{target}"
    with pytest.raises(FileError, match="not read in this test"):
        importer.read(written(document, tmp_path / "n.pt2"))
    assert f"torch.ops.aten.{target}" in handed[0]


def test_torch_does_not_count_up_to_a_large_number(tmp_path: Path, handed: list[str]) -> None:
    document = program() | {"range_constraints": {"u99999999999": {"min_val": 2, "max_val": 9}}}
    with pytest.raises(SpecError, match="u99999999999"):
        importer.read(written(document, tmp_path / "n.pt2"))
    assert not handed


@pytest.mark.parametrize(
    ("expression", "is_read"),
    [
        ("Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(-1))", True),
        ("Max(Integer(1), Pow(Symbol('u0'), Integer(2)))", True),
        ("s0 // 2 + 1", True),
        ("9 ** 9 ** 9", False),
        ("1 << 999999999", False),
        ("Pow(Pow(Integer(9), Integer(8)), Integer(8))", False),
        ("Pow(Integer(9), Integer(99999999))", False),
        ("Pow(9, 9)", False),
        ("Add('1', 1)", False),
        ("s0.real", False),
        ("exit(1)", False),
        ("(exit)(1)", False),
        ("Symbol('s0', **Symbol('s1'))", False),
        ("Symbol('s0')Symbol('s0')(1)", False),
        ("FloorDiv(Mul((s0 + s1), (s2 + s3), (s4 + s5), (s6 + s7)), Add(s0, s1))", True),  # 2**5 terms
        ("FloorDiv(Mul((s0 + s1), (s2 + s3), (s4 + s5), (s6 + s7)), Add(s0, s1, s2, s3, s4))", False),
        ("(a0 + a1 + a2 + a3) * (b0 + b1 + b2 + b3) * (c0 - c1 - c2 - c3)", True),  # 4**3
        ("(a0 + a1 + a2 + a3) * (b0 + b1 + b2 + b3) * (c0 - c1 - c2 - c3 - c4)", False),
        ("Pow(Add(s0, s1, s2, s3, s4), Integer(3))", True),  # 7 over 3
        ("Pow(Add(s0, s1, s2, s3, s4), Integer(4))", False),
        (f"Max({', '.join(f's{number}' for number in range(64))})", True),
        (f"Max({', '.join(f's{number}' for number in range(65))})", False),
    ],
)
def test_dimensions_are_plain_arithmetic(
    expression: str, is_read: bool, tmp_path: Path, handed: list[str]
) -> None:
    document = program()
    size = {"as_expr": {"expr_str": expression, "hint": {"as_int": 8}}}
    document["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][2] = size
    with pytest.raises(RramallocError, match="not read in this test" if is_read else "no plain arithmetic"):
        importer.read(written(document, tmp_path / "n.pt2"))
    assert bool(handed) == is_read


def test_all_sizes_together_have_one_limit(
    tmp_path: Path, handed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four sizes of 12 characters, two of them alike, below 40 characters; a fifth makes 48 that differ."""
    monkeypatch.setattr(importer, "MOST_EXPRESSIONS", 40)
    for numbers, reason in (((1, 2, 3, 3), "not read in this test"), ((1, 2, 3, 3, 4), "48 characters")):
        document = program()
        sizes = [{"as_expr": {"expr_str": f"s0 + {10**6 + number}"}} for number in numbers]
        document["graph_module"]["graph"]["tensor_values"]["x"]["sizes"] = sizes
        with pytest.raises(RramallocError, match=reason):
            importer.read(written(document, tmp_path / "n.pt2"))


def test_what_is_read_of_an_archive_has_one_limit(
    tmp_path: Path, handed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five tables of 900 bytes each with a graph below 5,000: a limit of 9,000 allows four of them."""
    table = json.dumps({"config": {}}).encode().ljust(900)
    size = len(json.dumps(program()))
    monkeypatch.setattr(importer, "JSON_LIMIT_BYTES", size + 4 * 900)
    for tables, reason in ((4, "not read in this test"), (5, "larger than the limit")):
        others = {f"table_{number}": table for number in range(tables)}
        with pytest.raises(FileError, match=reason):
            importer.read(written(program(), tmp_path / "n.pt2", **others))


@pytest.mark.parametrize("method", ["DEFLATED", "BZIP2", "LZMA"])
def test_a_damaged_graph_of_any_compression_is_refused(method: str, tmp_path: Path) -> None:
    path = tmp_path / "n.pt2"
    text = json.dumps(program())
    with zipfile.ZipFile(path, "w", getattr(zipfile, f"ZIP_{method}")) as archive:
        archive.writestr("n/models/model.json", text)
    content = bytearray(path.read_bytes())
    middle = slice(200, 260)  # of the compressed text, behind all that says how to read it
    content[middle] = bytes(byte ^ 0xFF for byte in content[middle])
    path.write_bytes(content)
    with pytest.raises(FileError):
        importer.read(path)


def test_a_tensor_that_a_table_lists_often_counts_each_time(
    tmp_path: Path, handed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten names for one tensor of 8 x 100 bytes."""
    meta = tensor(100) | {"dtype": 5}
    fields = {"path_name": "w", "is_param": False, "use_pickle": False, "tensor_meta": meta}
    table = json.dumps({"config": {f"name{number}": fields for number in range(10)}})
    path = tmp_path / "n.pt2"
    written(program(), path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("n/data/weights/model_weights_config.json", table)
        archive.writestr("n/data/weights/w", bytes(800))
    limit = len(json.dumps(program())) + len(table) + 10 * 800
    for allowed, reason in ((limit, "not read in this test"), (limit - 1, "larger than the limit")):
        monkeypatch.setattr(importer, "JSON_LIMIT_BYTES", allowed)
        with pytest.raises(FileError, match=reason):
            importer.read(path)
