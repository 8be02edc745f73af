"""PyTorch programs: torch.onnx writes them as ONNX, which the ONNX importer reads.

No weight is copied or computed with. No archive of torch.export.save is read here: torch runs code of it.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

from rramalloc.choices import HostLike
from rramalloc.errors import FileError, SpecError, UnsupportedError
from rramalloc.importers.axes import Dims
from rramalloc.lazy import how_to_install
from rramalloc.network.geometry import MAX_EXTENT
from rramalloc.network.network import Network
from rramalloc.records import brief, is_whole

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any  # importing it takes long; what reads it checks it

OPSET = 23  # the first with the operator Attention
MOST_RULES = 40  # operators without a translation of torch.onnx: each takes another export, of seconds
_LOCK = threading.RLock()


def from_torch(
    module: Any,
    example_shape: Tensor | Sequence[Any] = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    allow_partial: bool = False,
    host: HostLike = (),
) -> Network:
    """Read the network of a live module, traced in inference mode without touching its weights.

    Parameters
    ----------
    module
        A torch.nn.Module, or the ExportedProgram that torch.export made of one. A model that aihwkit
        converted to analog is read as the one that it was made from.
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
    host
        Layers that are left to the host where they cannot be expressed, by name or pattern.

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
        examples = _Examples.of(torch, example_shape, kwargs or {}, where)
        module = _digital(module, where)
        label = type(module).__name__.lower() if name is None else name
        program = _traced(torch, module, examples, where)
    else:
        raise SpecError(where, f"must be a torch.nn.Module or an ExportedProgram, {_got(torch, module)}")
    return _network(torch, program, where, label, allow_partial=allow_partial, host=host)


def _got(torch: Any, given: Any) -> str:
    """Return in words what was given in the place of a module, and a remedy."""
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


def _digital(module: Any, where: str) -> Any:
    """Return a model without layers of aihwkit, each as the layer that it was made from; weights are copied.

    Raises UnsupportedError.
    """

    def analog(given: Any) -> list[str]:
        named = given.named_modules()
        return [name for name, part in named if type(part).__module__.startswith("aihwkit.")]

    if not analog(module):
        return module
    from aihwkit.nn.conversion import convert_to_digital

    try:
        digital = convert_to_digital(module)
        left = ", ".join(analog(digital))
    except Exception as error:  # noqa: BLE001 - layers of others may raise anything
        left = _first_line(error)
    if left:
        advice = "give the digital model, as aihwkit.nn.conversion.convert_to_digital(model) makes it"
        raise UnsupportedError(where, f"has analog layers that cannot be read ({left[:300]}): {advice}")
    return digital


class _Shape(tuple[int, ...]):
    """Shape of an input of which no example is given."""

    __slots__ = ()


class _Examples(NamedTuple):
    """Inputs of a module: example tensors, shapes, and values that are passed as they are."""

    positional: tuple[Any, ...]
    named: Mapping[str, Any]

    @classmethod
    def of(cls, torch: Any, given: Any, named: Mapping[str, Any], where: str) -> _Examples:
        """Return the inputs given to a call, checked. Raises SpecError."""
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
        """Return the inputs with zeros of a type in place of shapes, all tensors on one device."""

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
        shapes = [value if isinstance(value, _Shape) else getattr(value, "shape", None) for value in values]
        sizes = ["x".join(map(str, shape)) for shape in shapes if shape is not None]
        return " and ".join(size or "one number" for size in sizes) or "no shape"


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _example(torch: Any, value: Any, place: str) -> Any:
    """Return an input of a module unchanged, a list of whole numbers as a shape. Raises SpecError."""
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
    of_module = next((tensor.dtype for tensor in tensors if tensor.dtype in kinds), torch.float32)
    errors = list[Exception]()
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # its fused operator hides the linear layers
    try:
        for dtype in (of_module, torch.int64):
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
    experts = {name: part.numel() for name, part in module.named_parameters() if "expert" in name}
    if "data-dependent" in str(cause) and experts:
        from rramalloc.importers.onnx.chosen import EXPERTS

        more = f" and {len(experts) - 1} more" if len(experts) > 1 else ""
        shown = f"{sum(experts.values()):,} weights of experts ({next(iter(experts))[:60]}{more})"
        raise UnsupportedError(where, f"data decides on what its {shown} work: {EXPERTS}") from cause
    raise SpecError(
        where,
        f"torch.export cannot trace it with inputs of {examples} ({_first_line(cause)}); check the example "
        f"shape, give example tensors where types matter, or pass an ExportedProgram",
    ) from cause


def _copy(torch: Any, module: Any) -> Any:
    """Return a copy that shares all tensors: they are entered as copied before the deep copy begins."""
    memo: dict[int, Any] = {}
    for child in module.modules():
        for tensor in (*child.parameters(False), *child.buffers(False), *vars(child).values()):
            if isinstance(tensor, torch.Tensor):
                memo[id(tensor)] = tensor
    return copy.deepcopy(module, memo)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().split("\n", 1)[0][:300]
    kind = type(error).__name__
    return f"{kind}: {text}"


# --- through torch.onnx


def _network(
    torch: Any, program: Any, where: str, name: str, *, allow_partial: bool, host: HostLike
) -> Network:
    """Return the network of a program."""
    from rramalloc.importers.onnx import from_model

    inputs, dynamic = _input_shapes(program, where)
    model = _onnx_model(torch, program, where)
    return from_model(
        model,
        where,
        inputs,
        allow_partial=allow_partial,
        host=host,
        dynamic=dynamic,
        name=name,
        source="torch.export",
    )


def _input_shapes(program: Any, where: str) -> tuple[dict[str, Dims], set[str]]:
    """Return the shapes of inputs with dynamic axes, as in the example, and those whose first axis is one."""
    wanted, shapes, symbols = set(program.graph_signature.user_inputs), dict[str, Dims](), dict[str, int]()
    dynamic = set[str]()
    for node in program.graph.nodes:
        value: Any = node.meta.get("val") if node.op == "placeholder" and node.name in wanted else None
        if not hasattr(value, "shape"):
            continue
        value.fake_mode.allow_fallback_kernels = True  # of quantisation: a program that is loaded has none
        place, dims = f"{where}: input {node.name[:60]!r}", list[int]()
        for axis, size in enumerate(value.shape):
            known = size if isinstance(size, int) else size.node.hint
            if not isinstance(size, int):
                known = symbols.setdefault(str(size), 1 if axis == 0 and known is None else known)
                dynamic.update([node.name] if axis == 0 else [])
            if known is None:
                raise SpecError(place, f"axis {axis} is dynamic without an example: export with fixed shapes")
            dims.append(int(known))
        if 0 in dims:
            raise SpecError(place, f"has no elements: its shape is {tuple(dims)}")
        if any(not isinstance(size, int) for size in value.shape):
            shapes[node.name] = tuple(dims)
    return shapes, dynamic


def _onnx_model(torch: Any, program: Any, where: str) -> Any:
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
            return _light_model(torch, made.model)
        except Exception as error:  # torch.onnx raises errors of its own, and those of what it calls
            failed = re.search(r"target=torch\.ops\.(\w+)\.(\w+)\.(\w+)\]", str(error))
            target = torch.ops if failed else None
            for part in failed.groups() if failed else ():
                target = getattr(target, part)
            if target is None or rules.get(target) is _opaque or len(rules) >= MOST_RULES:
                cause: BaseException = error
                while cause.__cause__ is not None:
                    cause = cause.__cause__
                reason = _first_line(cause)
                raise SpecError(where, f"torch.onnx cannot write it as ONNX ({reason})") from error
            rules[target] = _opaque


def _light_model(torch: Any, model: Any) -> Any:
    import onnx
    import onnx_ir

    from rramalloc.importers.onnx.tensors import foldable

    empty = []
    for name, value in list(model.graph.initializers.items()):
        tensor = value.const_value
        raw: Any = getattr(tensor, "raw", None)
        stored = type(raw) in (torch.Tensor, torch.nn.Parameter) and not raw.is_meta
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
    onnx, directions = _onnx(), 1 + bidirectional
    per_direction = 4 if has_biases else 2
    # Packed sequences have no input here, and projected states have more parameters.
    if input is None or len(params) != num_layers * directions * per_direction:
        return _opaque(op, input=input, hx=hx, params=params, **rest)
    kind = op.name().partition("::")[2].split(".")[0].split("_")[0].upper()
    x = onnx.Transpose(input, perm=[1, 0, 2]) if batch_first else input
    starts, ends = hx if isinstance(hx, list) else [hx], list[Any]()
    for layer in range(num_layers):
        of_layer = params[layer * directions * per_direction : (layer + 1) * directions * per_direction]
        stacks = [
            [onnx.Unsqueeze(matrix, [0]) for matrix in of_layer[part::per_direction]] for part in (0, 1)
        ]
        w, r = (onnx.Concat(*stack, axis=0) if directions > 1 else stack[0] for stack in stacks)
        begins = [
            onnx.Slice(start, [layer * directions], [(layer + 1) * directions], [0]) for start in starts
        ]
        direction = "bidirectional" if bidirectional else "forward"
        hidden = of_layer[1].shape[-1]
        y, *last = getattr(onnx, kind)(x, w, r, None, None, *begins, direction=direction, hidden_size=hidden)
        x = onnx.Reshape(onnx.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1])
        ends.append(last)
    ended = [onnx.Concat(*states, axis=0) for states in zip(*ends, strict=True)]
    return [onnx.Transpose(x, perm=[1, 0, 2]) if batch_first else x, *ended]


def _scales(op: Any, input: Any, **_rest: Any) -> Any:  # noqa: A002, ARG001
    """Translate choose_qparams: scale and zero point from the range of the values."""
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
