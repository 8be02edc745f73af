"""Files in formats that are not read: recognised by their content, with remedies.

Nothing in them is executed, unpickled or unpacked: their first bytes and the names in an archive tell.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
from pathlib import Path

from rramalloc.errors import FileError
from rramalloc.files import file_errors, folder_names, open_to_read
from rramalloc.importers.registry import READ

_TORCH_GRAPH = re.compile(r"(?:^|/)(?:models/[^/]+\.json|serialized_exported_program\.json)$")
"""Names of the JSON of a graph in archives of torch.export.save, the second in those of torch 2.6."""
_HEAD_BYTES = 512  # as far as the mark of a tar archive
_TAR_MARK = slice(257, 262)
_LARGEST_OFFSET = 2**16  # of the first table of a FlatBuffer, which its first four bytes hold
_LONGEST_TABLE = 10**8  # bytes: safetensors' own limit
_BEGINNINGS = {
    b"version https://git-lfs.github.com/spec/": "Git LFS pointer",
    b"\x89HDF\r\n\x1a\n": "HDF5",
    b"GGUF": "GGUF",
    b"\x93NUMPY": "arrays",
    b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.": "PyTorch pickle",  # of torch.save before torch 1.6
    **{bytes((0x80, protocol)): "pickle" for protocol in (2, 3, 4, 5)},
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\0": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_PACKERS = ("gzip", "xz", "bzip2", "zstd")
_TEXTS = {
    re.compile(rb"\s*ir_version\s*:"): "textproto",
    re.compile(rb"\s*<\s*ir_version\s*:"): "onnxtxt",
    re.compile(rb'\s*\{\s*"(irVersion|ir_version)"'): "json",
    re.compile(rb"\s*<(!doctype\s+)?html", re.IGNORECASE): "HTML",
}
"""Patterns of the begin of texts, with the format; those of ONNX have the names of formats in onnx.load."""
_FLAT = {b"TFL3": "TensorFlow Lite", b"ORTM": "ONNX Runtime"}
"""Identifiers of formats that are FlatBuffers."""
_TF2ONNX = "write it as ONNX with `python -P -m tf2onnx.convert --{option} {file} --output {onnx}`"
_TRACED = (
    "in Python build the module (its weights do not matter) and give it to rramalloc.from_torch, or write it "
    "as ONNX with `torch.onnx.export(module.eval(), (torch.zeros(1, 3, 224, 224),), {onnx_path!r}, "
    "dynamo=True)` and an example of every input"
)
_SCRIPTED = (
    "in Python write it as ONNX with `torch.onnx.export(torch.jit.load({path!r}), "
    "(torch.zeros(1, 3, 224, 224),), {onnx_path!r}, dynamo=False)`, with an example of every input"
)
_ALONE = "weights alone, which do not say how layers are connected"
_PACKED = "is packed by {kind}: `{kind} -dc {file} > {unpacked}` unpacks it"
_ARCHIVED = (
    "is a {kind} archive: `python -P -m {kind}file -e {file} {folder}` unpacks it; give the network in it"
)
_WRITTEN = "is ONNX as text: `python -P -c {script}` writes a file that can be read"
_REASONS = {
    "Git LFS pointer": "is a pointer of Git LFS, not the file: `git lfs pull` in its repository gets that",
    "PyTorch pickle": "is a pickle of PyTorch (torch.save), of weights or of a module without its code, and "
    f"never opened: {_TRACED}",
    "TorchScript": f"is TorchScript (torch.jit.save): {_SCRIPTED}",
    "torch.export": "is an archive of torch.export.save, which torch alone reads, and may run code of it: if "
    "you trust it, `import rramalloc, torch.export` and `rramalloc.convert(rramalloc.from_torch("
    "torch.export.load({path!r})), {json!r})` in Python write a file that is read",
    "safetensors": f"holds {_ALONE} (safetensors): {_TRACED}",
    "GGUF": f"holds {_ALONE} (GGUF): {_TRACED}",
    "arrays": f"holds {_ALONE} (NumPy): give the network that they belong to, for example as ONNX",
    "pickle": "is a pickle of Python, which is never opened: give the network in another form, such as ONNX",
    "TensorFlow Lite": f"is a model of TensorFlow Lite: {_TF2ONNX}",
    "Keras": f"is a model of Keras: {_TF2ONNX}",
    "HDF5": f"is HDF5, as Keras writes it: {_TF2ONNX}; if it holds {_ALONE}, save the whole model",
    "SavedModel": f"is a SavedModel of TensorFlow: {_TF2ONNX}",
    "ONNX Runtime": "is a model in the format of ONNX Runtime: give the .onnx file that it was made from",
    "HTML": "is a web page, not the file that it shows: download the file itself",
    "zip": _ARCHIVED,
    "tar": _ARCHIVED,
    "empty": "is empty: it has to be written or downloaded again",
    **dict.fromkeys(_PACKERS, _PACKED),
    **dict.fromkeys(("textproto", "onnxtxt", "json"), _WRITTEN),
}
"""Kind of a file, and remedies."""
_OPTIONS = {"TensorFlow Lite": "tflite", "Keras": "keras", "HDF5": "keras", "SavedModel": "saved-model"}
"""Option of tf2onnx for a file."""


_PACKED_ENDINGS = (".gz", ".xz", ".bz2", ".zst")
_PACKED_TARS = (".tgz", ".txz", ".tbz2", ".tar.gz", ".tar.xz", ".tar.bz2")


def refuse(path: Path) -> None:
    """Raise FileError for a folder, for an empty file without a reader that says so, and for a file of a
    format that is known and not read, whatever its ending.

    A pipe is left unread.
    """
    name = os.fspath(path)
    kind = _kind_of(name) if os.path.isfile(name) else ""
    path = path.parent if path.name == "saved_model.pb" else path
    if os.path.isfile(path / "saved_model.pb"):
        kind = "SavedModel"
    elif os.path.isdir(name):
        raise FileError(name, f"is a folder, a file is needed: {_files_in(name)}")
    if path.suffix.lower() == ".pt2" and kind in ("", "zip"):
        with file_errors(name):
            os.stat(name)
        kind = "torch.export"
    is_left = kind == "empty" and path.suffix.lower() in (".json", ".csv")
    if kind and not is_left:
        raise FileError(name, _REASONS[kind].format_map(_words(path if path.name else path.absolute(), kind)))


def _words(path: Path, kind: str) -> dict[str, str]:
    """Return the words of remedies: the file, and names of what they make of it."""
    name = os.fspath(path)
    onnx = os.fspath(path.with_suffix(".onnx"))
    if onnx == name:
        onnx = name.removesuffix(".onnx") + "-written.onnx"
    inner = path.with_suffix("") if path.suffix.lower() in _PACKED_ENDINGS else path
    is_named = inner != path and bool(inner.suffix)
    unpacked = inner if is_named else path.with_name(f"{path.stem}-unpacked.onnx")
    read = f"{json.dumps(name)}, {json.dumps(kind)}"  # quoted as a shell's quotes allow
    folder = path.with_name(f"{path.name.partition('.')[0]}-unpacked")
    return {
        "path": name,
        "file": shlex.quote(name),
        "kind": kind,
        "onnx": shlex.quote(onnx),
        "onnx_path": onnx,
        "json": os.fspath(path.with_suffix(".json")),
        "unpacked": shlex.quote(os.fspath(unpacked)),
        "folder": shlex.quote(os.fspath(folder)),
        "script": shlex.quote(f"import onnx; onnx.save(onnx.load({read}), {json.dumps(onnx)})"),
        "option": _OPTIONS.get(kind, ""),
    }


def _files_in(folder: str) -> str:
    """Return which file may be meant instead of a folder."""
    with contextlib.suppress(FileError):
        for name in folder_names(folder):
            if name.endswith(".onnx"):
                return f"such as {os.path.join(folder, name)}"
    return f"one that ends in {', '.join(READ)}"


def _kind_of(path: str) -> str:
    """Return the format of a file, "" if it is none that is known here."""
    with open_to_read(path) as stream:
        head = stream.read(_HEAD_BYTES)
        size = os.fstat(stream.fileno()).st_size
    if head.startswith(b"PK\x03\x04"):
        return _kind_of_archive(path)
    for beginning, kind in _BEGINNINGS.items():
        if head.startswith(beginning):
            is_tar = kind in _PACKERS and path.lower().endswith(_PACKED_TARS)
            return "tar" if is_tar else kind
    for text, kind in _TEXTS.items():
        if text.match(head):
            return kind
    if head[4:8] in _FLAT and int.from_bytes(head[:4], "little") < _LARGEST_OFFSET:
        return _FLAT[head[4:8]]
    if head[_TAR_MARK] == b"ustar" or not head:
        return "tar" if head else "empty"
    table = int.from_bytes(head[:8], "little")
    return "safetensors" if head[8:9] == b"{" and 2 <= table <= min(size - 8, _LONGEST_TABLE) else ""


def _kind_of_archive(path: str) -> str:
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):  # for its reader to say
        return ""
    files = {name.rpartition("/")[2] for name in names}
    if any(_TORCH_GRAPH.search(name) for name in names):
        return "torch.export"
    if "data.pkl" in files:
        return "TorchScript" if "constants.pkl" in files else "PyTorch pickle"
    if {"config.json", "metadata.json"} <= set(names):
        return "Keras"
    return "arrays" if files and all(name.endswith(".npy") for name in files) else "zip"
