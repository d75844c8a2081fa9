"""Files of tensors: PyTorch reads ours, we read PyTorch's, strangers are refused."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tcdsl import library as tc
from tcdsl import nn
from tcdsl.serialization import load, save

pytestmark = pytest.mark.cc


def again(obj: Any) -> Any:
    """Return what was written, read."""
    file = io.BytesIO()
    save(obj, file)
    file.seek(0)
    return load(file)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    x = tc.arange(12.0).reshape(3, 4)
    state = {"x": x, "row": x[1], "turned": x.t(), "none": None, "n": [1, 2.5, "s"], "d": tc.int8}
    save(state, tmp_path / "x.pt")
    read = load(tmp_path / "x.pt")
    assert read["x"].tolist() == x.tolist()
    assert read["turned"].tolist() == x.t().tolist()
    assert read["n"] == [1, 2.5, "s"]
    assert read["d"] is tc.int8
    assert read["none"] is None
    read["x"][1, 0] = 100.0
    assert read["row"][0].item() == 100  # memory is shared again
    assert [p.name for p in tmp_path.iterdir()] == ["x.pt"]


def test_devices_are_written_as_pytorch_writes_them(tmp_path: Path) -> None:
    devices = [tc.device("cpu"), tc.device("cuda", 1)]
    save(devices, tmp_path / "x.pt")
    assert load(tmp_path / "x.pt") == devices
    torch = pytest.importorskip("torch")
    assert list(map(str, torch.load(tmp_path / "x.pt"))) == ["cpu", "cuda:1"]
    torch.save([torch.device("cuda:1")], tmp_path / "y.pt")
    assert load(tmp_path / "y.pt") == devices[1:]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int64", "float16", "bfloat16"])
def test_types(dtype: str) -> None:
    x = tc.tensor([0, 1, 2]).to(getattr(tc, dtype))
    read = again(x)
    assert read.dtype is x.dtype
    assert read.tolist() == x.tolist()
    assert again(tc.zeros(0, 3)).shape == (0, 3)
    assert again(tc.tensor(2.5)).item() == 2.5


def test_a_state_comes_back() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    other = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    other.load_state_dict(again(net.state_dict()))
    assert other[0].weight.tolist() == net[0].weight.tolist()
    assert isinstance(again(nn.Parameter(tc.ones(2))), nn.Parameter)


@pytest.mark.torch
@pytest.mark.parametrize("is_new", [True, False])
def test_pytorchs_files(is_new: bool) -> None:
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    theirs = {"w": torch.arange(6.0).reshape(2, 3).t(), "p": torch.nn.Parameter(torch.ones(2))}
    torch.save(theirs, file, _use_new_zipfile_serialization=is_new)
    file.seek(0)
    read = load(file)
    assert read["w"].tolist() == theirs["w"].tolist()
    assert read["p"].requires_grad
    file = io.BytesIO()
    save(nn.Linear(3, 2).state_dict(), file)
    file.seek(0)
    assert [*torch.load(file)] == ["weight", "bias"]


class Evil:
    """Runs something when it is read."""

    def __reduce__(self) -> Any:
        return print, ("read",)


def test_strangers_are_refused() -> None:
    file = io.BytesIO()
    save({"x": Evil()}, file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=r"names (__builtin__|builtins).print"):
        load(file)


def damaged(change: Any) -> io.BytesIO:
    """Return a file of ours with one entry changed."""
    file, made = io.BytesIO(), io.BytesIO()
    save({"x": tc.arange(6.0)}, file)
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(made, "w") as new:
        for info in old.infolist():
            content = change(info.filename, old.read(info))
            if content is not None:
                new.writestr(info.filename, content)
    made.seek(0)
    return made


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda n, c: c[:8] if "/data/" in n else c, "has 8 bytes"),
        (lambda n, c: None if "/data/" in n else c, "it has no"),
        (lambda n, c: None if n.endswith("data.pkl") else c, "without data.pkl"),
        (lambda n, c: c[:40] if n.endswith("data.pkl") else c, "damaged|truncated"),
        (lambda n, c: c.replace(b"K\x06\x85", b"K\x07\x85") if "pkl" in n else c, "damaged"),
    ],
)
def test_damaged_files(change: Any, words: str) -> None:
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match=words):
        load(damaged(change))


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(pickle.UnpicklingError):
        load(io.BytesIO(b"hello"))
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.pt")
    np.save(tmp_path / "x.npy", np.ones(3))
    with pytest.raises(pickle.UnpicklingError):
        load(tmp_path / "x.npy")
