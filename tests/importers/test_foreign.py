"""What is no network says what it is and what to do next, by its content and whatever its ending."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import pytest
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
CONVERT = "`python -m tf2onnx.convert"


@pytest.mark.parametrize(
    ("name", "content", "what", "remedy"),
    [
        ("net.pth", archive("net/data.pkl", "net/data/0"), "is a pickle of PyTorch", "'net.pt2')`"),
        ("net.pt", OLD_TORCH, "is a pickle of PyTorch", "rramalloc.from_torch"),
        ("net.pkl", pickle.dumps(Bomb()), "is a pickle of Python", "never opened"),
        ("net.pt", SCRIPT, "is TorchScript", "`torch.onnx.export(torch.jit.load('net.pt')"),
        ("net.tflite", b"\x1c\0\0\0TFL3\x14\0", "TensorFlow Lite", f"{CONVERT} --tflite net.tflite --output"),
        ("net.h5", b"\x89HDF\r\n\x1a\n\0\0", "is HDF5", f"{CONVERT} --keras net.h5 --output net.onnx`"),
        ("net.keras", KERAS, "is a model of Keras", f"{CONVERT} --keras net.keras --output net.onnx`"),
        ("net.safetensors", len(TABLE).to_bytes(8, "little") + TABLE, "holds weights alone", "'net.pt2')`"),
        ("net.gguf", b"GGUF\3\0\0\0", "holds weights alone", "rramalloc.from_torch"),
        ("net.npz", archive("a.npy", "b.npy"), "holds weights alone", "as ONNX"),
        ("net.ort", b"\x18\0\0\0ORTM\0\0", "ONNX Runtime", "give the .onnx file"),
        ("net.onnx", LFS, "is a pointer of Git LFS", "`git lfs pull`"),
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


def test_an_archive_of_torch_with_another_ending_is_renamed(tmp_path: Path) -> None:
    path = tmp_path / "net.zip"
    path.write_bytes(archive("net/models/model.json", "net/data/weights/x"))
    with pytest.raises(FileError, match=r"ending is .pt2: `mv .*/net.zip .*/net.pt2`"):
        load(path)
    refuse(path.rename(tmp_path / "net.pt2"))


def test_a_folder_of_tensorflow(tmp_path: Path) -> None:
    (tmp_path / "my saved").mkdir()
    (tmp_path / "my saved" / "saved_model.pb").write_bytes(b"\x08\x01")
    with pytest.raises(FileError, match=r"--saved-model '.*/my saved' --output '.*/my saved.onnx'`"):
        load(tmp_path / "my saved")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04 is no archive",
        b"\xff\xff\xff\x7fTFL3",
        bytes(8) + b"{}",  # a table of no bytes
        (10**6).to_bytes(8, "little") + b"{}",  # a table beyond the end
        b'{"format": "rramalloc-network/1"}',
        b"name,c_in\n",
        b"\x08\x0a\x12\x07pytorch\x1a\x052.5.1",  # of an ONNX file
        archive("readme.txt"),
    ],
)
def test_what_is_not_recognised_is_left_to_its_reader(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    refuse(path)
    with pytest.raises(RramallocError):
        load(path)
