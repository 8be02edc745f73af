"""All disk access: files are read up to a limit and written whole or not at all; folders, locks."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import itertools
import json
import os
import re
import secrets
import shutil
import signal
import stat
import sys
import tempfile
import threading
import tomllib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, Self

from rramalloc.errors import FileError, RramallocError, suggestion
from rramalloc.memory import is_short_of_memory, limit_of_memory

# Limits of files that are read whole: far above any real one, they bound time and memory for hostile ones.
JSON_LIMIT_BYTES = 64 * 2**20
TOML_LIMIT_BYTES = 2**20
CSV_LIMIT_BYTES = 16 * 2**20
_TOML_DEPTH = 100  # parts of a dotted key: tomllib recurses for each
_JSON_KEYS = 200_000  # keys of one object, as many as a network may have nodes: bounds memory
_MOST_NAMES = 1000  # of a folder: those of more are slow to compare, and nobody reads them
_DRAFT_ENDING = ".tmp"
_DRAFT_LETTERS = 60  # of the name of a file, at most 4 bytes each: 14 bytes more are below the limit of 255
_LOCK = "lock"  # file in a draft of a folder, which its process holds
_NO_FOLDER = "exists and is no folder: name a new folder"
_ANY_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_LIMITS = {
    errno.EMFILE: "too many open files: raise the limit of this process (ulimit -n)",
    errno.EFBIG: "file too large: raise the limit of file sizes (ulimit -f)",
    errno.EAGAIN: "no further process can start: raise the limit of processes (ulimit -u)",
}
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # JSON can write half of a pair, UTF-8 and protobuf cannot
_CONTROLS = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")  # that JSON allows and terminals obey
ONNX_LIMIT_BYTES = 2**31 - 1  # protobuf's own limit for one message


def read_bytes(path: str | os.PathLike[str], limit_bytes: int) -> bytes:
    """Return the content of a file of at most `limit_bytes`. Raises FileError."""
    with open_to_read(path) as stream:
        content = stream.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        words = f"is larger than the limit of {limit_bytes} bytes for this kind of file"
        raise FileError(os.fspath(path), words)
    return content


@contextlib.contextmanager
def open_to_read(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file or pipe as a stream of bytes, for formats that are not read whole. Raises FileError."""
    shown = os.fspath(path)
    with file_errors(shown):
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            kind = "folder" if stat.S_ISDIR(mode) else "device or socket"
            raise FileError(shown, f"is a {kind}, a file is needed")
        with open(path, "rb") as stream:
            yield stream


def read_text(path: str | os.PathLike[str], limit_bytes: int) -> str:
    """Return the text of a UTF-8 file (a leading byte-order mark is skipped). Raises FileError."""
    return text_of(read_bytes(path, limit_bytes), os.fspath(path))


def text_of(content: bytes, where: str) -> str:
    """Return the text that UTF-8 content from `where` is, as of `read_text`. Raises FileError."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(where, f"is not UTF-8 text (byte {error.start}): save it as UTF-8") from None


def read_json(path: str | os.PathLike[str], limit_bytes: int = JSON_LIMIT_BYTES) -> Any:
    """Return a JSON document; NaN, infinities and repeated keys are refused. Raises FileError."""
    return parse_json(read_text(path, limit_bytes), os.fspath(path))


def parse_json(text: str, where: str) -> Any:
    """Parse JSON text that came from `where`. Raises FileError."""
    if not text.strip():
        raise FileError(where, "is empty, a JSON document is needed")
    try:
        document = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=lambda name: _refuse(f"{name} is not a number that JSON allows"),
        )
        if _SURROGATE.search(text):
            json.dumps(document, ensure_ascii=False).encode()
        return document
    except RecursionError:
        raise FileError(where, "is nested too deeply for a JSON document of this program") from None
    except ValueError as error:
        raise FileError(where, f"is not JSON that this program reads: {_said(error)}") from None


def as_utf8(name: str) -> str:
    """Return the name of a file with "?" for bytes that are not UTF-8, which no document can hold."""
    return name.encode("utf-8", "replace").decode()


def _said(error: ValueError) -> str:
    return "it has a whole number of thousands of digits" if "digits" in str(error) else str(error)


class ShippedName(str):
    """Name of a file that ships with the package. Nothing of that name in a folder is looked for."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Return the schema of a text, for defaults of records."""
        return handler(str)


def shipped_name(entry: str, names: Iterable[str], ending: str, folder: str = "") -> ShippedName | None:
    """Return what ships that an entry means, None for another name or that of a regular file in `folder`."""
    name = entry.removesuffix(ending)
    is_shipped = isinstance(entry, ShippedName) or not os.path.isfile(os.path.join(folder, entry))
    return ShippedName(name) if is_shipped and name in names else None


def beside(folder: str, entry: Any, shipped: Callable[[str, str], ShippedName | None]) -> Any:
    """Return the path of an entry of a file in a folder, or what ships; other values as they are."""
    if not isinstance(entry, str):
        return entry
    path = os.path.join(folder, entry)
    is_path = os.path.exists(path) or os.path.basename(entry) != entry
    return shipped(entry, folder) or (path if is_path else entry)


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return a TOML document; dates and times are refused. Raises FileError."""
    text = read_text(path, TOML_LIMIT_BYTES).replace("\r\n", "\n")
    if any(_dots_of_keys(line) > _TOML_DEPTH for line in text.split("\n")):
        raise FileError(os.fspath(path), f"has a dotted key of more than {_TOML_DEPTH} parts")
    try:
        document = tomllib.loads(text)
        # values are kept as JSON, which has no dates
        json.dumps(
            document,
            default=lambda value: _refuse(f"it holds the date or time {value}: write it as a text in quotes"),
        )
    except RecursionError:
        raise FileError(os.fspath(path), "is nested too deeply for a TOML document") from None
    except ValueError as error:
        raise FileError(os.fspath(path), f"is not TOML that this program reads: {_said(error)}") from None
    return document


@cache
def code_sha256() -> str:
    """Return a hash of the code of this package: another version or commit may compute other results."""
    root = Path(__file__).parent
    code = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        code.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return code.hexdigest()


class Closing(ABC):
    """Base of objects that a `with` block holds, and closes at its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Close it."""


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically: temporary file, fsync, rename. Raises FileError."""
    write_bytes(path, text.encode("utf-8", "replace"))  # as `as_utf8`


def write_json(path: str | os.PathLike[str], document: Any) -> None:
    """Write a JSON document atomically. Raises FileError."""
    write_text(path, to_json(document))


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file atomically; a killed process leaves the old content. Raises FileError."""
    with open_to_write(path) as stream:
        stream.write(content)


@contextlib.contextmanager
def open_to_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a stream, also to read back from, that becomes the file when the block ends without error.

    Raises FileError.
    """
    import fcntl

    with file_errors(path_text(path)):
        target = _target(path)
        if target is None:
            with tempfile.TemporaryFile() as draft:
                yield draft
                draft.seek(0)
                with open(path, "wb") as stream:
                    shutil.copyfileobj(draft, stream)
            return
        _end_dead_drafts(target, "[a-f0-9]", is_folder=False)
        with _ending_clean(), contextlib.ExitStack() as stack:
            while True:
                name = f".{target.name[:_DRAFT_LETTERS]}.{secrets.token_hex(4)}{_DRAFT_ENDING}"
                temporary = target.with_name(name)
                stack.callback(temporary.unlink, missing_ok=True)
                with open(temporary, "x+b") as stream:
                    with contextlib.suppress(OSError):  # of a disk that knows no locks
                        fcntl.flock(stream, fcntl.LOCK_EX)
                    if not temporary.exists():  # another process took it for a dead one, before it was held
                        continue
                    yield stream
                    stream.flush()
                    if target.exists():
                        os.fchmod(stream.fileno(), stat.S_IMODE(target.stat().st_mode))
                    os.fsync(stream.fileno())
                    os.replace(temporary, target)  # while it is held: a draft that nobody holds is removed
                    sync_folder(target.parent)
                    return


def path_text(path: str | os.PathLike[str]) -> str:
    """Return a path to write to as a text. Raises FileError for what is no path."""
    if not isinstance(path, str | os.PathLike):
        raise FileError(repr(path)[:60], "is no path to write to: give a text or a path")
    return os.fspath(path)


@contextlib.contextmanager
def file_errors(shown: str) -> Iterator[None]:
    """Turn errors of the system into a FileError about the file `shown`."""
    try:
        yield
    except RramallocError:
        raise
    except (OSError, ValueError) as error:
        raise FileError(shown, _reason(error)) from None


def check_writable(path: str | os.PathLike[str] | None) -> None:
    """Fail before long work rather than after it if `path`, when given, cannot become a file.

    Raises FileError.
    """
    if path is None:
        return
    shown = path_text(path)
    with file_errors(shown):
        target = _target(path)
        if target is None:
            return
        if not target.parent.is_dir():
            raise FileError(shown, "its folder does not exist; make it first")
        if not os.access(target.parent, os.W_OK):
            raise FileError(shown, "permission denied in its folder")


def check_outputs(
    outputs: Mapping[str, str | os.PathLike[str]], inputs: Iterable[str | os.PathLike[str]]
) -> None:
    """Fail before the work if an output has no name, is also an input, or is two outputs.

    outputs: paths by what the user calls them; inputs: texts of which some may be paths. Links are followed.
    Raises FileError.
    """
    read = [path for path in inputs if os.path.exists(path)]
    for name, path in outputs.items():
        shown = os.fspath(path)
        if not shown:
            raise FileError(name, "the name of the file is empty")
        if any(_is_same(path, other) for other in read):
            raise FileError(shown, f"is read by this command and would be overwritten: give {name} another")
        for other, also in outputs.items():
            if other != name and _is_same(path, also):
                raise FileError(shown, f"is named by {name} and by {other}: each needs a file of its own")


def to_json(document: object) -> str:
    """Return a document as JSON: two-space indent, keys as given, NaN refused, newline at the end."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def sync_folder(path: Path) -> None:
    """Sync a folder to the disk (fsync), so that renames in it survive a crash."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def open_alone(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file to read and to append to, held by one process until it is closed. Raises FileError."""
    import fcntl

    shown = os.fspath(path)
    with file_errors(shown), contextlib.ExitStack() as stack:
        stream = stack.enter_context(open(path, "a+b"))
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            words = "another process is writing it: wait for it to end, or name another"
            raise FileError(shown, words) from None
        stack.pop_all()  # the caller closes the file
        return stream


def make_folder(path: str | os.PathLike[str]) -> None:
    """Make a folder and its parents if they do not exist. Raises FileError."""
    shown = os.fspath(path)
    with file_errors(shown):
        if os.path.lexists(path) and not os.path.isdir(path):
            raise FileError(shown, _NO_FOLDER)
        os.makedirs(path, exist_ok=True)


def check_folder(path: str | os.PathLike[str], is_ours: Callable[[Path], bool]) -> None:
    """Raise FileError unless `path` is free, an empty folder, or one that `is_ours` gives away as a whole."""
    shown = path_text(path)
    target = Path(path)
    with file_errors(shown):
        faults = {
            "is a link, which is not followed: name the folder itself or a new one": target.is_symlink(),
            _NO_FOLDER: target.exists() and not target.is_dir(),
            "is the current folder, and is written as a whole: name a new folder": target.exists()
            and target.samefile("."),
        }
        for words, is_so in faults.items():
            if is_so:
                raise FileError(shown, words)
        names = folder_names(path) if target.exists() else []
        if names and not is_ours(target):
            words = "which no earlier run left there as it is: name a new or an empty folder"
            raise FileError(shown, f"holds {names[0][:60]!r}, {words}")


def write_folder(
    path: str | os.PathLike[str], texts: Mapping[str, str], is_ours: Callable[[Path], bool]
) -> None:
    """Write a folder of text files atomically: new folder beside it, fsync, rename.

    What a process that was killed left beside it is removed; SIGTERM leaves nothing.
    is_ours: whether a folder that is there may be replaced, with all that it holds. Raises FileError.
    """
    path_text(path)
    with file_errors(os.fspath(path)), contextlib.ExitStack() as stack:
        target = Path(os.path.realpath(path))
        _end_dead_drafts(target, "[a-z0-9_]", is_folder=True)
        check_folder(path, is_ours)
        target.parent.mkdir(parents=True, exist_ok=True)
        stack.enter_context(_ending_clean())
        draft = Path(tempfile.mkdtemp(_DRAFT_ENDING, f".{target.name[:_DRAFT_LETTERS]}.", target.parent))
        stack.callback(shutil.rmtree, draft, ignore_errors=True)
        with contextlib.suppress(FileError):  # of a disk that knows no locks
            stack.enter_context(open_alone(draft / "new lock"))
            os.rename(draft / "new lock", draft / _LOCK)  # held from the moment it is seen
        new, old = draft / "new", draft / "old"
        new.mkdir()
        for name, text in texts.items():
            if name != os.path.basename(name) or name in ("", ".", ".."):
                raise FileError(name, "is no name of a file within one folder")
            try:
                write_text(new / name, text)
            except FileError as error:  # which names the draft
                raise FileError(os.path.join(path, name), error.reason) from None
        stack.callback(lambda: old.rename(target) if old.exists() and not target.exists() else None)
        if target.exists():
            os.rename(target, old)
        os.rename(new, target)
        sync_folder(target.parent)


def _end_dead_drafts(target: Path, letter: str, *, is_folder: bool) -> None:
    """Remove drafts of processes that have ended; what one had just moved away is put back first.

    letter: pattern of those in the names of drafts.
    """
    name = glob.escape(target.name[:_DRAFT_LETTERS])
    for draft in target.parent.glob(f".{name}.{letter * 8}{_DRAFT_ENDING}"):
        lock = draft / _LOCK if is_folder else draft
        if draft.is_symlink() or not lock.is_file():
            continue
        with contextlib.suppress(FileError), open_alone(lock):
            if (draft / "old").exists() and not target.exists():
                if len(target.name) > _DRAFT_LETTERS:  # it may be of another folder
                    continue
                os.rename(draft / "old", target)
            if is_folder:
                shutil.rmtree(draft, ignore_errors=True)
            else:
                draft.unlink(missing_ok=True)


@contextlib.contextmanager
def _ending_clean() -> Iterator[None]:
    """Remove half-written files on SIGTERM before the process ends, unless it has its own handler."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def names_beside(path: str) -> tuple[str, ...]:
    """Return names in the folder of a file, at most 1000 and none that cannot be read, to suggest one."""
    with contextlib.suppress(OSError, ValueError), os.scandir(os.path.dirname(path) or ".") as entries:
        return tuple(sorted(entry.name for entry in itertools.islice(entries, _MOST_NAMES)))
    return ()


def folder_names(path: str | os.PathLike[str]) -> list[str]:
    """Return the names in a folder, sorted. Raises FileError."""
    with file_errors(os.fspath(path)):
        return sorted(os.listdir(path))


def _is_same(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Return True if two paths lead to one file, existing or not; devices and pipes do not count."""
    if os.path.exists(path) and os.path.exists(other):
        return not is_stream(os.fspath(path)) and os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def _target(path: str | os.PathLike[str]) -> Path | None:
    """Return the file that a path leads to, None for a stream.

    Refuses a folder, and a file without write permission, though its folder would allow to replace it, even
    for root. A link that leads to itself is no file that could be replaced.
    """
    shown = os.fspath(path)
    if os.path.isdir(shown) or shown.endswith(os.sep):
        raise FileError(shown, "is a folder, name a file")
    if is_stream(shown):
        return None
    target = Path(os.path.realpath(path))
    if target.is_symlink():  # all others were followed
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if target.exists() and not (os.access(target, os.W_OK) and target.stat().st_mode & _ANY_WRITE):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    return target


def is_stream(path: str) -> bool:
    """Return True for a device, a pipe or /dev/stdout, over which nothing can be renamed."""
    by_name = os.path.abspath(path).startswith(("/dev/std", "/dev/fd/", "/proc/self/fd/"))
    return by_name or (os.path.exists(path) and not os.path.isfile(path))


def limit_reached(error: BaseException) -> str | None:
    """Return the limit of the system that caused an error and how to raise it, None for other errors."""
    if is_short_of_memory(error):
        return f"out of memory: {limit_of_memory()}use a smaller network, input shape or budget"
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return _LIMITS[errno.EAGAIN]
    return _LIMITS.get(error.errno or 0) if isinstance(error, OSError) else None


def _reason(error: Exception) -> str:
    if limit := limit_reached(error):
        return limit
    if isinstance(error, FileNotFoundError):
        path = os.fspath(error.filename or "")
        hint = suggestion(os.path.basename(path), names_beside(path), cutoff=0.75)
        return f"no such file or folder; {hint}" if hint else "no such file or folder"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)


def _dots_of_keys(line: str) -> int:
    """Return the most dots in a key or a table's header: the time of tomllib grows with its square."""
    keys = line.split("=")[:-1] if "=" in line else [line] if line.lstrip().startswith("[") else []
    return max((key.count(".") for key in keys), default=0)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > _JSON_KEYS:
        raise ValueError(f"an object has {len(pairs)} keys, the limit is {_JSON_KEYS}")
    document = dict(pairs)
    if len(document) != len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {key[:60]!r} appears twice in one object")
    return document


def _refuse(reason: str) -> NoReturn:
    raise ValueError(reason)
