"""A live PyTorch module or ExportedProgram, turned into a Program; the only file that imports torch.

It is saved as an archive without weights, so that there is one reader of PyTorch's graphs.
"""

from __future__ import annotations

import copy
import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from rramalloc.errors import FileError, SpecError
from rramalloc.files import parse_json
from rramalloc.importers.torch.program import MAX_CONSTANT, Dims, Program
from rramalloc.importers.torch.pt2_file import graph_text, program
from rramalloc.lazy import how_to_install
from rramalloc.records import brief


def live_program(module: Any, shapes: Sequence[Dims], where: str) -> Program:
    """Trace a module (weights are shared, nothing is computed), or take an ExportedProgram as it is.

    The module itself is not changed. Raises FileError, SpecError.
    """
    torch = _torch()
    if isinstance(module, torch.export.ExportedProgram):
        exported = module
    elif isinstance(module, torch.nn.Module):
        exported = _export(torch, module, shapes, where)
    else:
        raise SpecError(where, f"must be a torch.nn.Module or an ExportedProgram, got {brief(type(module))}")
    return _read(torch, exported, where)


def _torch() -> Any:
    try:
        import torch
        import torch.export
    except ImportError:
        words = f"is not installed; reading live modules needs it: {how_to_install('torch')}"
        raise FileError("torch", words) from None
    return torch


def _export(torch: Any, module: Any, shapes: Sequence[Dims], where: str) -> Any:
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # its fused operator hides the linear layers
    try:
        device = next((tensor.device for tensor in (*module.parameters(), *module.buffers())), None)
        examples = tuple(torch.empty(shape, device=device or "cpu") for shape in shapes)
        return torch.export.export(_copy(torch, module).eval(), examples)
    except Exception as error:  # forward() is the user's code and may raise anything
        raise SpecError(
            where,
            f"torch.export cannot trace it with inputs of {_listed(shapes)} "
            f"({_first_line(error)}); check the example shape, or pass an ExportedProgram",
        ) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)


def _copy(torch: Any, module: Any) -> Any:
    """A copy that shares all tensors: the deep copy finds every one of them copied already."""
    memo: dict[int, Any] = {}
    for child in module.modules():
        for tensor in (*child.parameters(False), *child.buffers(False), *vars(child).values()):
            if isinstance(tensor, torch.Tensor):
                memo[id(tensor)] = tensor
    return copy.deepcopy(module, memo)


def _listed(shapes: Sequence[Dims]) -> str:
    return " and ".join("x".join(map(str, shape)) for shape in shapes) or "no shape"


def _read(torch: Any, exported: Any, where: str) -> Program:
    """The graph as PyTorch writes it into an archive; of the constants only small whole numbers are there."""
    stores = (exported.state_dict, exported.constants)
    originals = [dict(store) for store in stores]
    archive, kept = io.BytesIO(), dict[str, Any]()
    try:
        for store, original in zip(stores, originals, strict=True):
            kept |= {name: value for name, value in original.items() if _is_small_whole(torch, value)}
            store.update(_without_weights(torch, original, kept))
        torch.export.save(exported, archive)
    except Exception as error:  # what cannot be saved depends on the operators of the user's code
        raise SpecError(where, f"torch.export cannot save its graph ({_first_line(error)})") from error
    finally:
        for store, original in zip(stores, originals, strict=True):
            store.update(original)
    values = {name: value.detach().to("cpu", torch.int64).numpy() for name, value in kept.items()}
    with zipfile.ZipFile(archive) as entries:
        document = parse_json(graph_text(entries, where), where)
    return program(document, where, lambda names: {name: values[name] for name in names if name in values})


def _is_small_whole(torch: Any, value: Any) -> bool:
    whole = isinstance(value, torch.Tensor) and not value.is_floating_point()
    return whole and value.device.type != "meta" and value.numel() <= MAX_CONSTANT


def _without_weights(torch: Any, tensors: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """The same names with tensors of no elements, except for those to keep."""
    light = {}
    for name, value in tensors.items():
        light[name] = value
        if isinstance(value, torch.Tensor) and name not in kept:
            light[name] = torch.empty(0, dtype=value.dtype)
            if isinstance(value, torch.nn.Parameter):
                light[name] = torch.nn.Parameter(light[name], requires_grad=False)
    return light


def _first_line(error: Exception) -> str:
    text = str(error).strip().split("\n", 1)[0][:300]
    return f"{type(error).__name__}: {text}"
