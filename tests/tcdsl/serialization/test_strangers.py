"""Files of strangers change nothing, and ask for no more than they are; writing loses no file."""

from __future__ import annotations

import collections
import io
import os
import pickle
import random
import resource
import signal
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tcdsl import library as tc
from tcdsl import nn
from tcdsl.core import Size
from tcdsl.serialization import load, save

pytestmark = [pytest.mark.cc, pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")]


# ---- pickles by hand


def number(n: int) -> bytes:
    size = n.bit_length() // 8 + 1
    return pickle.LONG1 + bytes([size]) + n.to_bytes(size, "little", signed=True)


def text(t: str) -> bytes:
    return pickle.BINUNICODE + struct.pack("<I", len(t)) + t.encode()


def name(module: str, word: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{word}\n".encode()


def several(*members: bytes) -> bytes:
    return pickle.MARK + b"".join(members) + pickle.TUPLE


def call(function: bytes, *args: bytes) -> bytes:
    return function + several(*args) + pickle.REDUCE


def attribute(word: str, value: bytes) -> bytes:
    """A step that sets an attribute of the object before it."""
    mapping = pickle.EMPTY_DICT + text(word) + value + pickle.SETITEM
    return several(pickle.NONE, mapping) + pickle.BUILD


STORAGE = (
    several(text("storage"), name("torch", "FloatStorage"), text("0"), text("cpu"), number(4))
    + pickle.BINPERSID
)


def of_layout(size: tuple[int, ...], stride: tuple[int, ...]) -> bytes:
    return call(
        name("torch._utils", "_rebuild_tensor_v2"), STORAGE, number(0),
        several(*map(number, size)), several(*map(number, stride)), pickle.NEWFALSE, pickle.NONE,
    )  # fmt: skip


def file_of(pickled: bytes, order: bytes = b"little") -> io.BytesIO:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + pickled + pickle.STOP)
        archive.writestr("archive/byteorder", order)
        archive.writestr("archive/data/0", np.arange(4, dtype=np.float32).tobytes())
    made.seek(0)
    return made


def test_a_file_sets_no_attributes() -> None:
    before = collections.Counter.update, Size.numel, tc.float32.name
    targets = {
        name("torch", "Size"): "numel",
        name("collections", "Counter"): "update",
        name("torch", "float32"): "name",
        name("torch._utils", "_rebuild_tensor_v2"): "__defaults__",
        STORAGE: "elements",
        of_layout((4,), (1,)): "data",
    }
    for target, word in targets.items():
        with pytest.raises(pickle.UnpicklingError, match="sets attributes of a"):
            load(file_of(target + attribute(word, pickle.NONE)))
    assert (collections.Counter.update, Size.numel, tc.float32.name) == before


def test_a_short_file_makes_nothing_long() -> None:
    endless = call(name("builtins", "range"), number(10**13))
    for made in (
        call(name("builtins", "list"), endless),
        call(name("builtins", "bytearray"), number(10**13)),
        pickle.NONE + pickle.LONG_BINPUT + struct.pack("<I", 2**31 - 1) + name("builtins", "none"),
        pickle.BYTEARRAY8 + struct.pack("<Q", 1 << 60) + name("builtins", "none"),
    ):
        with pytest.raises((pickle.UnpicklingError, RuntimeError)):
            load(file_of(made))


def test_layouts_beyond_all_numbers_are_refused() -> None:
    assert load(file_of(of_layout((2, 2), (2, 1)))).tolist() == [[0, 1], [2, 3]]
    for size, stride in (((2**40, 2**40), (0, 0)), ((2**63,), (0,)), ((1,), (2**70,))):
        with pytest.raises((pickle.UnpicklingError, RuntimeError)):
            load(file_of(of_layout(size, stride)))
    for order in (b"middle", b"\xff\xfe"):
        with pytest.raises(RuntimeError, match="its order of bytes is"):
            load(file_of(of_layout((4,), (1,)), order))


def test_files_for_text_are_refused() -> None:
    with pytest.raises(TypeError, match="'rb'"):
        load(io.StringIO("PK"))


@pytest.mark.wide
@pytest.mark.parametrize("kind", ["zip", "pickle", "legacy"])
def test_damaged_files_are_one_of_two_errors(kind: str) -> None:
    state = {"x": tc.arange(6.0), "b": nn.Parameter(tc.ones(2)), "s": {1, "t"}, "n": [2.5, None]}
    file, chance = io.BytesIO(), random.Random(0)
    if kind == "legacy":
        torch = pytest.importorskip("torch")
        torch.save({"a": torch.arange(4.0)}, file, _use_new_zipfile_serialization=False)
    else:
        save(state, file)
    whole = file.getvalue()
    part = b""
    if kind == "pickle":
        with zipfile.ZipFile(file) as archive:
            part = archive.read("archive/data.pkl")
    read = 0
    for _ in range(400):
        changed = bytearray(part or whole)
        if chance.random() < 0.2:
            del changed[chance.randrange(len(changed)) :]
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
            if not changed:
                break
        damaged = file_of(bytes(changed)) if part else io.BytesIO(changed)
        try:
            load(damaged)
            read += 1
        except (RuntimeError, pickle.UnpicklingError):
            pass
    assert read < 400


# ---- writing


def again(obj: Any) -> Any:
    file = io.BytesIO()
    save(obj, file)
    file.seek(0)
    return load(file)


@pytest.mark.parametrize(
    "value",
    [{1, 2}, frozenset([3]), b"ab", bytearray(b"c"), 1j, slice(1, 2), range(3),
     collections.defaultdict(list, {1: [2]}), collections.Counter("aab")],
)  # fmt: skip
def test_containers_of_python_come_back(value: Any) -> None:
    assert again(value) == value


class Halves:
    """Gives other tensors each time it is asked for its members."""

    def __init__(self) -> None:
        self.x = tc.arange(10.0)

    def __reduce__(self) -> Any:
        copy = self.x.clone()
        return collections.OrderedDict, ([("part", copy[:2]), ("whole", copy)],)


def test_an_object_may_make_its_tensors_while_it_is_written() -> None:
    file = io.BytesIO()
    save(Halves(), file)
    with zipfile.ZipFile(file) as archive:
        assert sum("/data/" in n for n in archive.namelist()) == 1
    file.seek(0)
    read = load(file)
    assert read["whole"].tolist() == list(range(10))
    read["whole"].zero_()
    assert read["part"].tolist() == [0, 0]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "x.pt", tmp_path / "latest.pt"
    link.symlink_to(target)
    for n in (1, 2):
        save(n, link)
        assert link.is_symlink()
        assert load(target) == n


def test_names_as_long_as_names_may_be(tmp_path: Path) -> None:
    save(5, tmp_path / ("x" * 255))
    assert load(tmp_path / ("x" * 255)) == 5


def test_a_file_keeps_its_mode_and_new_ones_have_the_usual(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    save(1, path)
    usual = tmp_path / "usual"
    usual.touch()
    assert path.stat().st_mode == usual.stat().st_mode
    path.chmod(0o640)
    save(2, path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    save(tc.ones(3), path)
    child = os.fork()
    if not child:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        try:
            save(tc.ones(100_000), path)
        except OSError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert load(path).tolist() == [1, 1, 1]
    assert [p.name for p in tmp_path.iterdir()] == ["x.pt"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no/x\.pt"):
        save(1, tmp_path / "no" / "x.pt")
