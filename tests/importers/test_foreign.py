"""What is no network says what it is and what to do next, by its content and whatever its ending."""

from __future__ import annotations

import ast
import bz2
import gzip
import io
import lzma
import pickle
import shlex
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import onnx
import pytest
from google.protobuf import json_format, text_format
from importers.onnx_parts import info, weight
from program import run

from rramalloc.errors import FileError, RramallocError
from rramalloc.importers import load
from rramalloc.importers.foreign import refuse


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return (pytest.fail, ("a pickle was executed",))


def archive(*names: str) -> bytes:
    """An archive of files with these names, each of them a pickle that must not be opened."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as made:
        for name in names:
            made.writestr(name, pickle.dumps(Bomb()))
    return target.getvalue()


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
TABLE = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
OLD_TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."
KERAS = archive("metadata.json", "config.json", "model.weights.h5")
SCRIPT = archive("net/data.pkl", "net/code/__torch__.py", "net/constants.pkl")
CONVERT = "`python -P -m tf2onnx.convert"


@pytest.mark.parametrize(
    ("name", "content", "what", "remedy"),
    [
        (
            "net.pth",
            archive("net/data.pkl", "net/data/0"),
            "is a pickle of PyTorch",
            "'net.onnx', dynamo=True)`",
        ),
        ("net.pt", OLD_TORCH, "is a pickle of PyTorch", "rramalloc.from_torch"),
        ("net.pkl", pickle.dumps(Bomb()), "is a pickle of Python", "never opened"),
        ("net.pt", SCRIPT, "is TorchScript", "`torch.onnx.export(torch.jit.load('net.pt')"),
        ("net.tflite", b"\x1c\0\0\0TFL3\x14\0", "TensorFlow Lite", f"{CONVERT} --tflite net.tflite --output"),
        ("net.h5", b"\x89HDF\r\n\x1a\n\0\0", "is HDF5", f"{CONVERT} --keras net.h5 --output net.onnx`"),
        ("net.keras", KERAS, "is a model of Keras", f"{CONVERT} --keras net.keras --output net.onnx`"),
        (
            "net.safetensors",
            len(TABLE).to_bytes(8, "little") + TABLE,
            "holds weights alone",
            "'net.onnx', dynamo=True)`",
        ),
        ("net.gguf", b"GGUF\3\0\0\0", "holds weights alone", "rramalloc.from_torch"),
        ("net.npz", archive("a.npy", "b.npy"), "holds weights alone", "as ONNX"),
        ("net.ort", b"\x18\0\0\0ORTM\0\0", "ONNX Runtime", "give the .onnx file"),
        ("net.onnx", LFS, "is a pointer of Git LFS", "`git lfs pull`"),
        ("net.onnx", b"\n<!DOCTYPE html>\n<html>", "is a web page", "download the file itself"),
    ],
)
def test_a_known_format_says_what_helps(
    name: str, content: bytes, what: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    outcome = run("inspect", name)
    assert outcome.code == 1
    assert outcome.err.startswith(f"error: {name}: ")
    assert what in outcome.err
    assert remedy in outcome.err
    for ending in (".onnx", ".json", ".csv", ".pt2", ".bin"):  # the content tells
        other = Path(f"other{ending}")
        other.write_bytes(content)
        with pytest.raises(FileError, match=f"^other{ending}: .*{what}"):
            load(other)


@pytest.mark.parametrize("name", ["it's.pt2", "net.zip", "net.onnx"])
@pytest.mark.parametrize("inside", ["net/models/model.json", "serialized_exported_program.json"])
def test_an_archive_of_torch_is_left_to_torch(
    name: str, inside: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not opened; the two lines that read it are Python, whatever its name."""
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(archive(inside, "net/data/weights/x"))
    outcome = run("inspect", name)
    assert outcome.code == 1
    assert outcome.err.startswith(f"error: {name}: is an archive of torch.export.save")
    _, first, _, second, _ = outcome.err.split("`")
    ast.parse(f"{first}\n{second}")
    assert second.startswith("rramalloc.convert(rramalloc.from_torch(torch.export.load(")


@pytest.mark.parametrize("content", [b"PK\x03\x04 is no archive", b"x", archive("aot/model.so")])
def test_what_is_called_as_an_archive_of_torch_is_left_to_torch(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"torch.export.load\('.*net.pt2'\)\), '.*net.json'\)`"):
        load(path)


def test_a_folder_of_tensorflow(tmp_path: Path) -> None:
    (tmp_path / "my saved").mkdir()
    (tmp_path / "my saved" / "saved_model.pb").write_bytes(b"\x08\x01")
    with pytest.raises(FileError, match=r"--saved-model '.*/my saved' --output '.*/my saved.onnx'`"):
        load(tmp_path / "my saved")


def network_file() -> bytes:
    nodes = [onnx.helper.make_node("Conv", ["x", "w"], ["y"])]
    output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 4, 6, 6))
    graph = onnx.helper.make_graph(nodes, "g", [info("x", 1, 3, 8, 8)], [output], [weight("w", 4, 3, 3, 3)])
    return onnx.helper.make_model(graph).SerializeToString()


def tarred(name: str, mode: str) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode=mode) as made:  # type: ignore[call-overload]
        entry = tarfile.TarInfo(name)
        entry.size = len(network_file())
        made.addfile(entry, io.BytesIO(network_file()))
    return target.getvalue()


def zipped(name: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as made:
        made.writestr(name, network_file())
    return target.getvalue()


def written(kind: str) -> bytes:
    model = onnx.ModelProto.FromString(network_file())
    texts = {"textproto": text_format.MessageToString, "json": json_format.MessageToJson}
    return texts.get(kind, onnx.printer.to_text)(model).encode()


PACKED = {
    "net.onnx.gz": lambda: gzip.compress(network_file()),
    "net.onnx": lambda: gzip.compress(network_file()),
    "my net.onnx.xz": lambda: lzma.compress(network_file()),
    "net.bz2": lambda: bz2.compress(network_file()),
    "net.zip": lambda: zipped("in/model.onnx"),
    "zip.onnx": lambda: zipped("model.onnx"),
    "net.tar": lambda: tarred("model.onnx", "w"),
    "net.tgz": lambda: tarred("in/model.onnx", "w:gz"),
    "net.tar.gz": lambda: tarred("in/model.onnx", "w:gz"),
    "net.textproto": lambda: written("textproto"),
    "text.onnx": lambda: written("textproto"),
    "net.json": lambda: written("json"),
    "net.onnxtxt": lambda: written("onnxtxt"),
}


@pytest.mark.parametrize("name", PACKED)
def test_a_network_in_another_wrapping(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that the message gives is run as it stands, and leaves a file that is read."""
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(PACKED[name]())
    outcome = run("inspect", name)
    assert outcome.code == 1
    assert outcome.err.startswith(f"error: {name}: is ")
    _, command, _ = outcome.err.split("`")
    command = command.replace("python -P", f"{shlex.quote(sys.executable)} -P")
    subprocess.run(command, shell=True, check=True)  # noqa: S602 - our own words
    made = [path for path in Path().rglob("*") if path.is_file() and path != Path(name)]
    (path,) = made
    if path.suffix != ".onnx":
        path = path.rename("made.onnx")
    assert [node.op for node in load(path).nodes] == ["input", "conv"]


def test_nothing_and_folders_say_what_a_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.onnx", "a.pt2", "a.pth", "a.bin"):
        Path(name).touch()
        with pytest.raises(FileError, match=f"^{name}: is empty: .*written or downloaded again"):
            load(name)
    for name in ("bare", "bare.onnx", "full"):
        Path(name).mkdir()
    (Path("full") / "model.onnx").write_bytes(network_file())
    (Path("full") / "config.json").write_text("{}")
    with pytest.raises(FileError, match=r"^bare: is a folder, a file is needed: .*\.onnx"):
        load(Path("bare"))
    with pytest.raises(FileError, match=r"^bare.onnx: is a folder, a file is needed"):
        load("bare.onnx")
    with pytest.raises(FileError, match=r"^full: is a folder, a file is needed: such as full/model.onnx$"):
        load(Path("full"))
    (Path("full") / "saved_model.pb").write_bytes(b"\x08\x01")
    with pytest.raises(FileError, match=r"--saved-model full --output full.onnx`"):
        load("full/saved_model.pb")
    Path("net.mlmodel").write_bytes(b"\x08\x04")
    with pytest.raises(FileError, match=r"its ending is none of .*: write it as ONNX, .*from_torch"):
        load("net.mlmodel")


@pytest.mark.parametrize(
    "content",
    [
        b"PK\x03\x04 is no archive",
        b"\xff\xff\xff\x7fTFL3",
        bytes(8) + b"{}",  # a table of no bytes
        (10**6).to_bytes(8, "little") + b"{}",  # a table beyond the end
        b'{"format": "rramalloc-network/1"}',
        b"name,c_in\n",
        b"\x08\x0a\x12\x07pytorch\x1a\x052.5.1",  # of an ONNX file
    ],
)
def test_what_is_not_recognised_is_left_to_its_reader(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    refuse(path)
    with pytest.raises(RramallocError):
        load(path)
