"""PyTorch programs: torch.onnx writes them as ONNX, which the ONNX importer reads.

No weight is copied or computed with. Of a `.pt2` archive only the graph, checked, and small whole numbers are
handed to torch.export.load: no pickle in it is opened, and no text of it is evaluated. torch writes Python
code with the names of a graph and evaluates its sizes, so all of its text must be what the field holds: a
name, the path of a module, an operator, plain arithmetic, words.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import io
import json
import keyword
import logging
import lzma
import math
import os
import re
import threading
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rramalloc.errors import FileError, RramallocError, SpecError, UnsupportedError
from rramalloc.files import JSON_LIMIT_BYTES, open_to_read, parse_json
from rramalloc.importers.axes import Dims
from rramalloc.importers.foreign import TORCH_GRAPH
from rramalloc.lazy import how_to_install
from rramalloc.network.geometry import MAX_EXTENT
from rramalloc.network.network import Network
from rramalloc.records import brief, is_whole

if TYPE_CHECKING:
    import torch

OPSET = 23  # the first with the operator Attention
MOST_RULES = 40  # operators without a translation of torch.onnx: each takes another export, of seconds
_LOCK = threading.RLock()
SCHEMA_MAJOR = 8  # of torch.export.save, torch 2.6 on
LONGEST_EXPRESSION = 2000  # characters of a dynamic dimension; those of real programs have below 500
MOST_POWER = 8  # of a size: strides of images that are as high as wide have the fourth
MOST_TERMS = 64  # of a size: those of real programs have below 20; torch divides by 4096 terms in 6 s
MOST_EXPRESSIONS = 200_000  # characters of all that differ: torch needs some 25 us for each
MAX_STORED_BYTES = 2**19  # of the whole numbers of one tensor: 2**16 of 8 bytes, as many as are evaluated
WIDEST_ELEMENT = 16  # bytes, of complex128
_WHOLE = {4: 4, 5: 8}  # bytes of torch's types int32 and int64
_BROKEN = (
    RuntimeError,
    EOFError,
    ValueError,
    OverflowError,
    KeyError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
"""Errors of zipfile, and of what it decompresses with, for a damaged archive; of JSON of another form."""


def read(path: str | os.PathLike[str], *, allow_partial: bool = False) -> Network:
    """Return the network in a `.pt2` archive of torch.export.save.

    allow_partial: take operators whose weights cannot be modelled as barriers.
    Raises FileError, SpecError, NetworkError, UnsupportedError.
    """
    where = os.fspath(path)
    archive, unknown = _checked_archive(path, where)
    torch = _torch(where)
    try:
        with _alone():
            program = torch.export.load(archive)
    except Exception as error:  # torch fails in every way on a damaged graph
        reason = (
            f"torch.export.load cannot read its graph ({_first_line(error)}): save it again with this torch"
        )
        raise FileError(where, reason) from error
    name = Path(path).stem or "network"
    return _network(torch, program, where, name, allow_partial=allow_partial, unknown=unknown)


def from_torch(
    module: Any,
    example_shape: torch.Tensor | Sequence[Any] = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    allow_partial: bool = False,
) -> Network:
    """Read the network of a live module, traced in inference mode without touching its weights.

    Parameters
    ----------
    module
        A torch.nn.Module, or the ExportedProgram that torch.export made of one.
    example_shape
        Shape of the input with batch, such as (1, 3, 224, 224), or an example tensor; a list of them, and of
        plain values, for several inputs. Not needed for an ExportedProgram. What has a shape alone is of the
        type of the module's parameters, or of whole numbers where the module takes no others, as of tokens.
    kwargs
        Inputs that `forward` takes by name: shapes, example tensors or plain values.
    name
        Name of the network, by default the module's class.
    allow_partial
        Take operators whose weights cannot be modelled as barriers; every result says how much is missing.

    Returns
    -------
    Network
        As of the ONNX file that torch writes of the module, with the names of its modules.

    Raises
    ------
    FileError
        If torch or onnxscript is not installed.
    SpecError, NetworkError, UnsupportedError
        If the module cannot be traced or expressed.
    """
    label = type(module).__name__.lower() if name is None else name
    where = f"PyTorch module {label[:60]!r}"
    torch = _torch(where)
    if isinstance(module, torch.jit.ScriptModule):
        wrote = "`torch.onnx.export(module, examples, 'module.onnx', dynamo=False)`"
        reason = f"is TorchScript, which torch.export does not trace: {wrote} writes a file that can be read"
        raise UnsupportedError(where, f"{reason}; examples: a tuple with a tensor for every input")
    if isinstance(module, torch.export.ExportedProgram):
        program = module
    elif isinstance(module, torch.nn.Module):
        program = _traced(torch, module, _Examples.of(torch, example_shape, kwargs or {}, where), where)
    else:
        raise SpecError(where, f"must be a torch.nn.Module or an ExportedProgram, {_got(torch, module)}")
    return _network(torch, program, where, label, allow_partial=allow_partial)


def _got(torch: Any, given: Any) -> str:
    """Return what was given in the place of a module, and what to do with it."""
    parts = [*given.values()] if isinstance(given, Mapping) else []
    parts += [value for part in parts if isinstance(part, Mapping) for value in part.values()]
    if any(isinstance(value, torch.Tensor) for value in parts):
        what = "got a state dict, which holds weights and does not say how layers are connected"
        return f"{what}: build the module that they belong to and give that, it needs no weights"
    if isinstance(given, str | os.PathLike):
        return f"got a path, {brief(os.fspath(given))}: rramalloc.load reads files"
    if isinstance(given, type):
        return f"got the class {given.__name__[:60]}: give a module that it makes"
    return f"got {brief(type(given))}"


class _Shape(tuple[int, ...]):
    """Shape of an input of which no example is given."""

    __slots__ = ()


class _Examples(NamedTuple):
    """Inputs of a module: example tensors, shapes, and values that are passed as they are."""

    positional: tuple[Any, ...]
    named: Mapping[str, Any]

    @classmethod
    def of(cls, torch: Any, given: Any, named: Mapping[str, Any], where: str) -> _Examples:
        """Return the inputs that a call names. Raises SpecError."""
        place = f"{where}: example_shape"
        if not isinstance(given, Sequence | torch.Tensor) or isinstance(given, str):
            raise SpecError(place, f"must be a shape such as (1, 3, 224, 224), got {brief(given)}")
        is_one = isinstance(given, torch.Tensor) or (bool(given) and all(map(_is_number, given)))
        positional = (given,) if is_one else tuple(given)
        return cls(
            tuple(_example(torch, value, place) for value in positional),
            {key: _example(torch, value, f"{where}: kwargs[{key!r}]") for key, value in named.items()},
        )

    def made(self, torch: Any, dtype: Any, device: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the inputs with tensors of a type in the place of shapes, all of them on a device."""

        def tensors(value: Any) -> Any:
            if isinstance(value, _Shape):
                return torch.zeros(tuple(value), dtype=dtype, device=device)
            if isinstance(value, torch.Tensor):
                value = value.detach()  # values do not matter: torch.export traces with none
                return value if value.device == device else torch.zeros_like(value, device=device)
            if isinstance(value, Mapping):
                return {key: tensors(item) for key, item in value.items()}
            return [tensors(item) for item in value] if isinstance(value, list) else value

        return tuple(map(tensors, self.positional)), tensors(self.named)

    def __str__(self) -> str:
        """Return the sizes in words: "1x3x224x224 and 1x128"."""
        values = (*self.positional, *self.named.values())
        sizes = ["x".join(map(str, value if isinstance(value, _Shape) else value.shape)) for value in values
                 if isinstance(value, _Shape) or hasattr(value, "shape")]  # fmt: skip
        return " and ".join(size or "one number" for size in sizes) or "no shape"


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _example(torch: Any, value: Any, place: str) -> Any:
    """Return an input as it is given, whole numbers in brackets as a shape. Raises SpecError."""
    if value is None or isinstance(value, torch.Tensor | bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {key: _example(torch, item, place) for key, item in value.items()}
    if not isinstance(value, Sequence):
        raise SpecError(place, f"must be a shape such as (1, 3, 224, 224) or a tensor, got {brief(value)}")
    if not all(map(_is_number, value)):
        return [_example(torch, item, place) for item in value]
    sizes = [int(size) if isinstance(size, Integral) else size for size in value]  # NumPy's as Python's
    if not all(is_whole(size, 1, MAX_EXTENT) for size in sizes):
        raise SpecError(place, f"must hold whole numbers from 1 to {MAX_EXTENT}, got {brief(value)}")
    return _Shape(sizes)


def _torch(where: str) -> Any:
    try:
        import onnxscript  # noqa: F401  torch.onnx needs it
        import torch
        import torch.export
        import torch.onnx
    except ImportError as error:
        absent = f"needs {error.name or 'torch'}, which is not installed"
        raise FileError(where, f"{absent}: {how_to_install('torch')}") from None
    return torch


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Let one thread at a time use torch's tracers, without their warnings, log lines and dumps of code."""
    with _LOCK, warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        disabled = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(disabled)


def _traced(torch: Any, module: Any, examples: _Examples, where: str) -> Any:
    """Return the program of a module. Raises SpecError if torch.export cannot trace it."""
    tensors = [*module.parameters(), *module.buffers()]
    device = tensors[0].device if tensors else torch.device("cpu")
    kinds = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
    own = next((tensor.dtype for tensor in tensors if tensor.dtype in kinds), torch.float32)
    errors = list[Exception]()
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # its fused operator hides the linear layers
    try:
        for dtype in (own, torch.int64):
            positional, named = examples.made(torch, dtype, device)
            try:
                with _alone():
                    return torch.export.export(_copy(torch, module).eval(), positional, named)
            except Exception as error:  # noqa: BLE001 - forward() is the user's code and may raise anything
                errors.append(error)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
    of_tokens = any(isinstance(part, torch.nn.Embedding) for part in module.modules())
    cause = errors[-1 if of_tokens else 0]
    raise SpecError(
        where,
        f"torch.export cannot trace it with inputs of {examples} ({_first_line(cause)}); check the example "
        f"shape, give example tensors where types matter, or pass an ExportedProgram",
    ) from cause


def _copy(torch: Any, module: Any) -> Any:
    """Return a copy that shares all tensors: the deep copy finds every one of them copied already."""
    memo: dict[int, Any] = {}
    for child in module.modules():
        for tensor in (*child.parameters(False), *child.buffers(False), *vars(child).values()):
            if isinstance(tensor, torch.Tensor):
                memo[id(tensor)] = tensor
    return copy.deepcopy(module, memo)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().split("\n", 1)[0][:300]
    kind = type(error).__name__
    return text if kind == "error" else f"{kind}: {text}"  # zlib calls its own exception so


# --- through torch.onnx


def _network(
    torch: Any, program: Any, where: str, name: str, *, allow_partial: bool, unknown: Collection[str] = ()
) -> Network:
    """Return the network of a program; unknown: constants whose values torch was not given."""
    from rramalloc.importers.onnx import from_model

    inputs = _input_shapes(program, where)
    model = _onnx_model(torch, program, where, unknown)
    return from_model(model, where, inputs, allow_partial=allow_partial, name=name, source="torch.export")


def _input_shapes(program: Any, where: str) -> dict[str, Dims]:
    """Return the shapes of inputs with dynamic axes: a batch is 1, any other axis as in the example."""
    wanted, shapes, symbols = set(program.graph_signature.user_inputs), dict[str, Dims](), dict[str, int]()
    for node in program.graph.nodes:
        value: Any = node.meta.get("val") if node.op == "placeholder" and node.name in wanted else None
        if not hasattr(value, "shape"):
            continue
        value.fake_mode.allow_fallback_kernels = True  # of quantisation: a program that is loaded has none
        place, dims = f"{where}: input {node.name[:60]!r}", list[int]()
        for axis, size in enumerate(value.shape):
            known = size if isinstance(size, int) else 1 if axis == 0 else size.node.hint
            if not isinstance(size, int):
                known = symbols.setdefault(str(size), known)
            if known is None:
                raise SpecError(place, f"axis {axis} is dynamic without an example: export with fixed shapes")
            dims.append(int(known))
        if 0 in dims:
            raise SpecError(place, f"has no elements: its shape is {tuple(dims)}")
        if any(not isinstance(size, int) for size in value.shape):
            shapes[node.name] = tuple(dims)
    return shapes


def _onnx_model(torch: Any, program: Any, where: str, unknown: Collection[str]) -> Any:
    """Return the program as an onnx.ModelProto whose large tensors have a shape and no values.

    An operator that torch.onnx cannot translate becomes one of the same name that ONNX does not know.
    """
    names = [name for name in program.graph_signature.user_inputs if isinstance(name, str)]
    rules = {
        node.target: rule
        for graph in (part.graph for part in program.graph_module.modules())
        for node in graph.nodes
        if (rule := _RULES.get(getattr(node.target, "name", str)().partition(".")[0])) is not None
    }
    while True:
        try:
            with _alone():
                made = torch.onnx.export(
                    program,
                    dynamo=True,
                    optimize=False,
                    verbose=False,
                    opset_version=OPSET,
                    input_names=names,
                    custom_translation_table={op: _translation(op, rule) for op, rule in rules.items()},
                )
            return _light_model(torch, made.model, unknown)
        except Exception as error:  # torch.onnx raises errors of its own, and those of what it calls
            failed = re.search(r"target=torch\.ops\.(\w+)\.(\w+)\.(\w+)\]", str(error))
            target = torch.ops if failed else None
            for part in failed.groups() if failed else ():
                target = getattr(target, part)
            if target is None or rules.get(target) is _opaque or len(rules) >= MOST_RULES:
                reason = _first_line(_cause(error))
                raise SpecError(where, f"torch.onnx cannot write it as ONNX ({reason})") from error
            rules[target] = _opaque


def _cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _light_model(torch: Any, model: Any, unknown: Collection[str]) -> Any:
    import onnx
    import onnx_ir

    from rramalloc.importers.onnx.tensors import foldable

    empty = []
    for name, value in list(model.graph.initializers.items()):
        tensor = value.const_value
        raw: Any = getattr(tensor, "raw", None)
        stored = type(raw) in (torch.Tensor, torch.nn.Parameter) and not (raw.is_meta or name in unknown)
        if not stored or not foldable(raw.numel(), tensor.dtype.numpy()):
            dims = [int(size) for size in tensor.shape]
            empty.append(onnx.TensorProto(name=name, data_type=int(tensor.dtype), dims=dims))
            del model.graph.initializers[name]
    proto = onnx_ir.to_proto(model)
    proto.graph.initializer.extend(empty)
    return proto


# --- translations of our own


def _translation(op: Any, rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule as a function of the arguments of a call, which reach it by name."""
    names = [argument.name for argument in op._schema.arguments]

    def translation(*args: Any, **kwargs: Any) -> Any:
        return rule(op, **dict(zip(names, args, strict=False)), **kwargs)

    return translation


def _node(domain: str, name: str, inputs: Sequence[Any], outputs: int = 1) -> Any:
    """Return a node of an operator that ONNX has no schema of."""
    import onnx.defs
    from onnxscript.values import Op, Opset

    schema = onnx.defs.OpSchema
    types = ["tensor(float)"]
    several = schema.FormalParameter(
        "inputs", "T", param_option=schema.FormalParameterOption.Variadic, is_homogeneous=False
    )
    made = [schema.FormalParameter(f"output{index}", "T") for index in range(outputs)]
    known = schema(name, domain, 1, inputs=[several], outputs=made, type_constraints=[("T", types, "")])
    return Op(Opset(domain, 1), name, known)(*inputs)


def _onnx() -> Any:
    from onnxscript.values import Opset

    return Opset("", OPSET)


def _opaque(op: Any, **given: Any) -> Any:
    """Return an operator of the same name, with all tensors among the arguments."""
    import onnx_ir

    listed = [item for value in given.values() for item in (value if isinstance(value, list) else [value])]
    domain, _, name = op.name().partition("::")
    tensors = [item for item in listed if isinstance(item, onnx_ir.Value)]
    return _node(domain, name.partition(".")[0], tensors, len(op._schema.returns))


def _attention(_: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, **_rest: Any) -> Any:
    """Translate scaled_dot_product_attention of any rank; that of torch.onnx takes 4 axes."""
    onnx = _onnx()
    new = list(range(4 - len(query.shape)))
    parts = [onnx.Unsqueeze(x, new) for x in (query, key, value)] if new else [query, key, value]
    y = onnx.Attention(*parts, attn_mask)[0]
    return onnx.Squeeze(y, new) if new else y


def _quantised(op: Any, input: Any = None, quant_min: Any = None, quant_max: Any = None, **given: Any) -> Any:  # noqa: A002
    """Translate quantize, dequantize, or both: whole numbers of the bits that the bounds need."""
    onnx = _onnx()
    x = given.get("self", input)
    computed = any(getattr(given.get(key), "producer", lambda: None)() for key in ("scale", "scales"))
    if computed and "dequantize" not in op.name():
        x = onnx.DynamicQuantizeLinear(x)[0]
    if isinstance(quant_min, int) and isinstance(quant_max, int):
        bits = float((quant_max - quant_min).bit_length())
        numbers = [onnx.Constant(value_float=number) for number in (1.0, 0.0, bits)]
        return _node("qonnx.custom_op.general", "Quant", [x, *numbers])
    return onnx.Identity(x)


def _recurrent(
    op: Any,
    input: Any = None,  # noqa: A002
    hx: Any = None,
    params: Any = (),
    has_biases: bool = True,
    num_layers: int = 1,
    bidirectional: bool = False,
    batch_first: bool = False,
    **rest: Any,
) -> Any:
    """Translate lstm, gru, rnn: layer after layer, each of one or two directions; gates as in PyTorch."""
    onnx, ways, each = _onnx(), 1 + bidirectional, 4 if has_biases else 2
    if input is None or len(params) != num_layers * ways * each:  # packed sequences, projected states
        return _opaque(op, input=input, hx=hx, params=params, **rest)
    kind = op.name().partition("::")[2].split(".")[0].split("_")[0].upper()
    x = onnx.Transpose(input, perm=[1, 0, 2]) if batch_first else input
    starts, ends = hx if isinstance(hx, list) else [hx], list[Any]()
    for layer in range(num_layers):
        own = params[layer * ways * each : (layer + 1) * ways * each]
        stacks = [[onnx.Unsqueeze(matrix, [0]) for matrix in own[part::each]] for part in (0, 1)]
        w, r = (onnx.Concat(*stack, axis=0) if ways > 1 else stack[0] for stack in stacks)
        begins = [onnx.Slice(start, [layer * ways], [(layer + 1) * ways], [0]) for start in starts]
        way = "bidirectional" if bidirectional else "forward"
        hidden = own[1].shape[-1]
        y, *last = getattr(onnx, kind)(x, w, r, None, None, *begins, direction=way, hidden_size=hidden)
        x = onnx.Reshape(onnx.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])
        ends.append(last)
    ended = [onnx.Concat(*states, axis=0) for states in zip(*ends, strict=True)]
    return [onnx.Transpose(x, perm=[1, 0, 2]) if batch_first else x, *ended]


def _scales(op: Any, input: Any, **_rest: Any) -> Any:  # noqa: A002, ARG001
    """Return the scale and zero point of the values themselves."""
    return list(_onnx().DynamicQuantizeLinear(input)[1:])


_FAMILIES: Mapping[Callable[..., Any], str] = {
    _attention: "aten::scaled_dot_product_attention",
    _recurrent: "aten::lstm aten::gru aten::rnn_tanh aten::rnn_relu",
    _quantised: "aten::fake_quantize_per_tensor_affine aten::fake_quantize_per_channel_affine "
    + " ".join(
        f"quantized_decomposed::{way}_per_{part}"
        for way in ("quantize", "dequantize")
        for part in ("tensor", "channel", "token")
    ),
    _scales: " ".join(
        f"quantized_decomposed::choose_qparams{kind}"
        for kind in ("", "_symmetric", "_per_token", "_per_token_asymmetric")
    ),
}
_RULES: Mapping[str, Callable[..., Any]] = {
    name: rule for rule, names in _FAMILIES.items() for name in names.split()
}


# --- archives


def _checked_archive(path: str | os.PathLike[str], where: str) -> tuple[io.BytesIO, set[str]]:
    """Return an archive of the checked graph and of the small whole numbers that say what places are taken.

    torch looks up, imports or evaluates what a graph names: names that no network needs are refused.
    """
    try:
        with open_to_read(path) as stream:
            if not stream.seekable():
                raise FileError(where, "is a pipe; a .pt2 archive must be a file")
            with zipfile.ZipFile(stream) as archive:
                graphs = [entry for entry in archive.infolist() if TORCH_GRAPH.search(entry.filename)]
                if len(graphs) != 1:
                    what = f"{len(graphs)} graphs" if graphs else "no graph"
                    raise FileError(where, f"holds {what}; save one program with torch.export.save")
                entries = _Entries(archive, where)
                try:
                    graph = parse_json(entries.read(graphs[0]).decode("utf-8"), where)
                except UnicodeDecodeError as error:  # `open_to_read` would take it for a fault of the file
                    raise FileError(where, f"its graph is not UTF-8 text (byte {error.start})") from None
                _check_version(graph, where)
                known = dict(_whole_numbers(entries))
                program = _checked(graph, "program", where)
                length = sum(map(len, set(_expressions(program))))
                if length > MOST_EXPRESSIONS:
                    what = f"its sizes are {length:,} characters of different expressions, the limit is"
                    reason = f"{what} {MOST_EXPRESSIONS:,}: export the module with fewer open dimensions"
                    raise FileError(where, reason)
                return _light_archive(program, known)
    except RramallocError:
        raise
    except (*_BROKEN, TypeError, AttributeError, RecursionError) as error:
        reason = (
            f"is not a readable .pt2 archive ({_first_line(error)}): save it again with torch.export.save"
        )
        raise FileError(where, reason) from None


class _Entries:
    """Entries of an archive: those that are read have one limit together."""

    def __init__(self, archive: zipfile.ZipFile, where: str) -> None:
        self.by_name = {entry.filename: entry for entry in archive.infolist()}
        self._archive = archive
        self._where = where
        self._left_bytes = JSON_LIMIT_BYTES

    def read(self, entry: zipfile.ZipInfo) -> bytes:
        """Return the content of an entry. Raises FileError beyond the limit."""
        with self._archive.open(entry) as stream:
            content = stream.read(self._left_bytes + 1)
        self._left_bytes -= len(content)
        if self._left_bytes < 0:
            what = "its graph, with the tables and whole numbers of its tensors,"
            raise FileError(self._where, f"{what} is larger than the limit of {JSON_LIMIT_BYTES} bytes")
        return content


def _check_version(document: Any, where: str) -> None:
    version = document.get("schema_version", {}).get("major") if isinstance(document, dict) else None
    if version != SCHEMA_MAJOR:
        raise FileError(
            where,
            f"has the torch.export schema version {brief(version)}, this program reads {SCHEMA_MAJOR} "
            f"(torch 2.6 on): export again with such a torch",
        )


def _light_archive(document: Any, known: Mapping[tuple[str, str], bytes]) -> tuple[io.BytesIO, set[str]]:
    """Return the archive that torch reads, and the tensors in it that store one element for all.

    known: whole numbers of constants, by name with type and shape.
    """
    module = document["graph_module"]
    specs, tensors = module["signature"]["input_specs"], module["graph"]["tensor_values"]
    stores: dict[str, dict[str, Any]] = {"weights": {}, "constants": {}}
    files, unknown = dict[str, bytes | str](), set[str]()
    for number, (kind, fields) in enumerate(pair for spec in specs for pair in spec.items()):
        name = fields.get(f"{kind}_name") if kind in ("parameter", "buffer", "tensor_constant") else None
        if name is None:
            continue
        meta = tensors[fields["arg"]["name"]]
        store = "constants" if kind == "tensor_constant" or fields.get("persistent") is False else "weights"
        content = known.get((name, json.dumps([meta["dtype"], meta["sizes"]])))
        if content is None:
            unknown.add(name)
            content = bytes(WIDEST_ELEMENT)
            meta = meta | {"strides": [{"as_int": 0} for _ in meta["sizes"]], "storage_offset": {"as_int": 0}}
        entry = {"path_name": f"tensor_{number}", "is_param": kind == "parameter", "use_pickle": False}
        stores[store][name] = entry | {"tensor_meta": meta}
        files[f"data/{store}/tensor_{number}"] = content

    def pytree(kind: str, children: list[Any], context: str = "null") -> dict[str, Any]:
        return {"type": kind, "context": context, "children_spec": children}

    leaf = {"type": None, "context": None, "children_spec": list[Any]()}
    inputs = [leaf for spec in specs for kind in spec if kind in ("user_input", "constant_input")]
    outputs = [leaf for spec in module["signature"]["output_specs"] for kind in spec if kind == "user_output"]
    made, keywords = pytree("builtins.tuple", outputs), pytree("builtins.dict", [], "[]")
    called = pytree("builtins.tuple", [pytree("builtins.tuple", inputs), keywords])
    signature: dict[str, Any] = {"inputs": [], "outputs": [], "forward_arg_names": None}
    signature |= {"in_spec": json.dumps([1, called]), "out_spec": json.dumps([1, made])}
    module |= {"module_call_graph": [{"fqn": "", "signature": signature}], "treespec_namedtuple_fields": {}}
    document["guards_code"] = []
    files |= {"models/model.json": json.dumps(document), "archive_format": "pt2", "archive_version": "0"}
    for store, listed in stores.items():
        files[f"data/{store}/model_{store}_config.json"] = json.dumps({"config": listed})
    files |= {"data/sample_inputs/model.pt": "", "byteorder": "little", ".data/version": "3\n"}
    light = io.BytesIO()
    with zipfile.ZipFile(light, "w") as target:
        for path, text in files.items():
            target.writestr(f"program/{path}", text)
    light.seek(0)
    return light, unknown


def _whole_numbers(entries: _Entries) -> Iterator[tuple[tuple[str, str], bytes]]:
    """Yield the small constants of whole numbers, by name with type and shape, but for damaged ones."""
    for config in entries.by_name.values():
        if not config.filename.endswith(("model_weights_config.json", "model_constants_config.json")):
            continue
        with contextlib.suppress(*_BROKEN, AttributeError, TypeError):
            for name, fields in _listed_tensors(entries.read(config), config.filename):
                meta, folder = fields["tensor_meta"], config.filename.rpartition("/")[0]
                bytes_each = _WHOLE.get(meta["dtype"]) if fields["use_pickle"] is False else None
                dims = [size["as_int"] for size in meta["sizes"]]
                packed = [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
                if bytes_each is None or [stride["as_int"] for stride in meta["strides"]] != packed:
                    continue
                stored = entries.by_name[f"{folder}/{fields['path_name']}"]
                if stored.file_size == math.prod(dims) * bytes_each <= MAX_STORED_BYTES:
                    yield (_path(name), json.dumps([meta["dtype"], meta["sizes"]])), entries.read(stored)


def _listed_tensors(content: bytes, where: str) -> Collection[tuple[str, Any]]:
    """Return the tensors of a table, none if it is damaged."""
    try:
        listed: dict[str, Any] = parse_json(content.decode("utf-8"), where)["config"]
        return listed.items()
    except (*_BROKEN, RramallocError, AttributeError, TypeError):
        return ()


# --- text of archives

_KEYWORDS = "|".join(keyword.kwlist)
_NAME = rf"(?!(?:{_KEYWORDS})\Z)[A-Za-z_][A-Za-z0-9_]*"
_OPERATOR = (  # those that write or read files are none of a network, nor is what Python objects have besides
    r"torch\.ops\.(?:aten|prims|quantized_decomposed|torchao|torchvision)"
    r"\.(?!from_file|save|load|open|read_|write|_dir\.|name\.)"
    r"(?!__(?!i?(?:and|or|xor|[lr]shift)__\.))\w+\.(?!op\Z|overloads\Z)[A-Za-z]\w*"
    r"|torch\.ops\.higher_order\.(?:wrap_with_\w+|cond|while_loop|scan|map_impl)"
    r"|torch\.sym_\w+|math\.(?:ceil|floor|trunc)"
    r"|_operator\.(?:add|sub|mul|floordiv|truediv|mod|neg|getitem|eq|ne|lt|le|gt|ge|and_|or_|not_)"
)
_TEXTS = {
    field: re.compile(pattern, re.ASCII)
    for fields, pattern in {
        "name as_name user_input_name verifiers": _NAME,
        "argument": rf"(?:{_NAME})?",
        "target as_operator": _OPERATOR,
        "symbol": r"[a-z_]+\d{1,6}",  # torch counts up to the numbers of some symbols
        "as_float as_floats as_float_lists real imag": "-?Infinity|NaN",
        "as_string as_strings": r"[\w ,.>+-]*",  # "bchw,cd->bdhw" of einsum
        "torch_version": r"[\w.+<=-]*",
        "nn_module_stack": r"[^\"'()\[\]\\\x00-\x1f]*",
    }.items()
    for field in fields.split()
}
"""What the text of a field may be."""
_PATHS = frozenset("parameter_name buffer_name tensor_constant_name custom_obj_name class_fqn".split())
_MISREAD = re.compile(rf"(?<![^.])(?:(?:{_KEYWORDS})(?![^.])|__)|[^A-Za-z0-9_.-]")
"""Parts of the path of a module that Python would not take for a name, nor for plain text, or take for one of
its own: torch sets what a path leads to, `__class__.x` too."""
_BY_NAME = frozenset(
    "tensor_values sym_int_values sym_float_values sym_bool_values custom_obj_values as_string_to_argument "
    "opset_version".split()
)
"""Fields of values by name."""
_FIELDS = _PATHS.union(
    _TEXTS,
    _BY_NAME,
    "graph_module signature graph schema_version major minor range_constraints min_val max_val metadata "
    "inputs outputs nodes is_single_tensor_return is_hop_single_tensor_return input_specs output_specs "
    "user_input parameter buffer tensor_constant custom_obj token constant_input user_output loss_output "
    "buffer_mutation parameter_mutation gradient_to_parameter gradient_to_user_input user_input_mutation "
    "arg persistent kind value dtype sizes requires_grad device strides storage_offset layout expr_str hint "
    "as_expr as_none as_tensor as_tensors as_nested_tensors as_optional_tensor as_optional_tensors as_int "
    "as_ints as_int_lists as_sym_int as_sym_ints as_sym_float as_sym_floats as_sym_bool as_sym_bools "
    "as_scalar_type as_memory_format as_layout as_device as_bool as_bools as_graph as_custom_obj "
    "as_complex".split(),
)
"""Fields of a program that say what a network is: torch is not given any other."""
_SYMBOL = re.compile(r"\bSymbol\('[A-Za-z_][A-Za-z0-9_]*'(?:, [a-z]+=(?:True|False))*\)")
_SYMBOL_ALONE = re.compile("[a-z]+[0-9]+|true|false")
_FUNCTIONS = frozenset(
    "Integer Add Mul Pow FloorDiv CeilDiv CleanDiv Mod PythonMod Max Min Eq Ne Lt Le Gt Ge Equality "
    "Unequality GreaterThan LessThan StrictGreaterThan StrictLessThan".split()
)
_PRODUCTS = frozenset("Mul FloorDiv CeilDiv CleanDiv Mod PythonMod".split())
_ARITHMETIC = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.cmpop, ast.Load, ast.UAdd, ast.USub)
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)


def _checked(value: Any, field: str, where: str) -> Any:
    """Return the value of a field with what a network needs of it.

    Raises RramallocError for text that is not what its field holds.
    """
    if isinstance(value, list):
        return [_checked(item, field, where) for item in value]
    if isinstance(value, str):
        return _checked_text(value, field, where)
    if not isinstance(value, dict):
        return value
    if field in ("device", "as_device"):  # perhaps one that is absent here
        return {"type": "cpu", "index": None}
    if field == "metadata":
        modules = value.get("nn_module_stack")
        is_kept = isinstance(modules, str) and _TEXTS["nn_module_stack"].fullmatch(modules)
        return {"nn_module_stack": modules} if is_kept else {}
    if field == "range_constraints":
        symbols = [symbol for symbol in value if symbol.isidentifier()]
        return {_checked_text(key, "symbol", where): _checked(value[key], "", where) for key in symbols}
    if field in _BY_NAME:
        return {_checked_text(key, "name", where): _checked(item, "", where) for key, item in value.items()}
    fields = {key: key for key in value if key in _FIELDS}
    if "name" in fields and "arg" in fields:
        fields["name"] = "argument"  # of an operator, perhaps without a name
    return {key: _checked(value[key], rule, where) for key, rule in fields.items()}


def _checked_text(text: str, field: str, where: str) -> str:
    if field in _PATHS:
        return _path(text)
    if field == "expr_str" and not _is_plain(text):
        limit = f"of at most {MOST_TERMS} terms"
        raise SpecError(where, f"the dimension {brief(text)} is no plain arithmetic {limit}")
    if field == "expr_str" or (field in _TEXTS and _TEXTS[field].fullmatch(text)):
        return text
    if field in ("as_string", "as_strings"):  # the message of an assertion
        return ""
    if field in ("target", "as_operator"):
        reason = "is no operator of PyTorch's own libraries: give the module itself to from_torch"
        raise UnsupportedError(f"{where}: operator {brief(text)}", reason)
    what = f"its graph has {brief(text)} as {field or 'a value'}, which torch.export does not write"
    raise SpecError(where, f"{what}: save it again with torch.export.save")


def _expressions(value: Any) -> Iterator[str]:
    """Yield the expression of every size of a program."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict) and "expr_str" in value:
        yield value["expr_str"]
    for each in inner:
        yield from _expressions(each)


def _path(text: str) -> str:
    """Return the path of a module or parameter with other parts where Python would not read a name."""
    return _MISREAD.sub(_spelled, text)


def _spelled(misread: re.Match[str]) -> str:
    part = misread[0]
    if len(part) == 1:
        return f"_u{ord(part):04x}_"
    return "u__" if part == "__" else f"{part}_"


def _is_plain(expression: str) -> bool:
    """Return True if a text is arithmetic on symbols: sympy evaluates it as Python code."""
    rest = _SYMBOL.sub("(0)", expression)
    if len(expression) > LONGEST_EXPRESSION or not re.fullmatch(r"[\w +\-*/%(),<>=!]*", rest, re.ASCII):
        return False
    try:
        tree = ast.parse(rest, mode="eval")
        return all(map(_is_arithmetic, ast.walk(tree))) and _terms(tree.body) <= MOST_TERMS
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _terms(node: ast.AST) -> int:
    """Return the most terms that plain arithmetic has once its products are expanded, as sympy does it."""
    match node:
        case ast.UnaryOp(operand=operand):
            return _terms(operand)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return _terms(left) + _terms(right)
        case ast.BinOp(left=left, right=right):
            return _terms(left) * _terms(right)
        case ast.Compare(left=left, comparators=rest):
            return _terms(left) + sum(map(_terms, rest))
        case ast.Call(func=ast.Name(id="Pow"), args=[base, ast.Call(args=[ast.Constant(value=int(power))])]):
            return math.comb(_terms(base) + power - 1, power)
        case ast.Call(func=ast.Name(id=function), args=parts) if function in _PRODUCTS:
            return math.prod(map(_terms, parts))
        case ast.Call(args=parts):
            return sum(map(_terms, parts))
    return 1


def _is_arithmetic(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int)
        case ast.Name(id=name):
            return name in _FUNCTIONS or bool(_SYMBOL_ALONE.fullmatch(name))
        case ast.Call(func=ast.Name(id="Pow"), args=[base, ast.Call(args=[ast.Constant(value=int(power))])]):
            return power <= MOST_POWER and not any(
                isinstance(inner, ast.Name) and inner.id == "Pow" for inner in ast.walk(base)
            )
        case ast.Call(func=ast.Name(id=function)):
            return function in _FUNCTIONS and function != "Pow"
    return isinstance(node, (*_ARITHMETIC, *_OPERATORS))
