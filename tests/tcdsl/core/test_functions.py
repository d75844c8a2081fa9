"""Functions under further names, and calls that name what they write into."""

from __future__ import annotations

import importlib
import pickle
import pickletools
import sys
from types import ModuleType
from typing import Any

import pytest

import tcdsl
from tcdsl import distributions, library, nn, optim
from tcdsl.core import Function, Method
from tcdsl.names import ROOMS
from tcdsl.utils import data

pytestmark = pytest.mark.cc


def _told(*args: Any, **named: Any) -> Any:
    """Return what a call says."""
    return args, named


def test_further_names_reach_a_function_as_its_own_and_nothing_is_kept_of_calls() -> None:
    made = Function(_told)
    assert made(1, axis=2) == ((1,), {"axis": 2})
    made.names = {"axis": "dim"}
    value = object()
    before = sys.getrefcount(value)
    for _ in range(100):
        assert made(1, axis=value, other=2) == ((1,), {"dim": value, "other": 2})
    assert sys.getrefcount(value) == before
    assert made(dim=3) == ((), {"dim": 3})

    class Home:
        free, method = made, Method(made)

    home = Home()
    assert home.free(axis=1) == ((), {"dim": 1})
    assert home.method(axis=1) == ((home,), {"dim": 1})


def test_a_functions_error_is_the_calls() -> None:
    def failing(**named: Any) -> None:
        raise KeyError(*named)

    made = Function(failing)
    made.names = {"axis": "dim"}
    with pytest.raises(KeyError, match="dim"):
        made(axis=1)


def test_numpys_words_are_pytorchs() -> None:
    x = library.arange(6.0).reshape(2, 3)
    assert x.mean(axis=0, keepdims=True).shape == (1, 3)
    assert vars(tcdsl.Tensor)["mean"].__wrapped__ is library.mean
    assert library.mean.__name__ == "mean"
    with pytest.raises(TypeError):
        x.mean(axes=0)


def test_results_are_written_into_what_is_named() -> None:
    x, y, out = library.arange(3.0), library.ones(3), library.zeros(3)
    for number in range(1, 4):  # the second call is the core's alone
        assert library.add(x, y, out=out) is out
        assert out.tolist() == [1, 2, 3]
        assert out._version >= number
    library.add(out, out, out=out)
    library.add(out, out, out=out)
    assert out.tolist() == [4, 8, 12]
    narrow = library.zeros(2, 3)
    for row in narrow:
        library.mul(x, 2.0, out=row)
    assert narrow.tolist() == [[0, 2, 4], [0, 2, 4]]
    grown = library.zeros(0)
    assert library.mul(x, 3.0, out=grown) is grown
    assert grown.tolist() == [0, 3, 6]
    wide = library.zeros(3, dtype=library.float64)
    assert library.mul(x, 3.0, out=wide) is wide
    assert wide.tolist() == [0, 3, 6]
    count = sys.getrefcount(out)
    for _ in range(100):
        library.add(x, y, out=out)
    assert sys.getrefcount(out) == count


def test_what_is_recorded_is_written_into_nothing() -> None:
    x, out = library.ones(3), library.zeros(3)
    library.exp(x, out=out)
    library.exp(x, out=out)
    for operand, target in ((library.ones(3).requires_grad_(), out), (x, out.requires_grad_())):
        with pytest.raises(RuntimeError, match="automatic differentiation"):
            library.exp(operand, out=target)
    with library.no_grad():
        assert library.exp(x, out=out) is out
    with library.inference_mode():
        made = library.zeros(3)
    with pytest.raises(RuntimeError, match="inference tensor"):
        library.exp(x, out=made)


def test_sizes_are_tuples_whose_parts_are_sizes() -> None:
    shape = library.zeros(2, 3, 4).shape
    assert (shape[0], shape[-1]) == (2, 4)
    assert type(shape[1:]) is type(shape)
    assert shape[1:].numel() == 12
    assert hash(shape) == hash((2, 3, 4))
    with pytest.raises(IndexError):
        shape[3]
    count = sys.getrefcount(type(shape))
    for _ in range(100):
        shape[1:]
    assert sys.getrefcount(type(shape)) <= count + 1


class Layer:
    """What a user writes: functions of the package as attributes of a class."""

    op, view, renamed, plain = library.relu, library.unsqueeze, library.softmax, library.allclose


def test_functions_of_the_package_bind_to_no_object_and_methods_do() -> None:
    layer, x = Layer(), library.ones(2)
    assert layer.op is library.relu
    assert layer.op(x).tolist() == [1, 1]
    assert layer.view(x, 0).shape == (1, 2)
    assert layer.plain(x, x)
    assert layer.renamed(x, axis=0).tolist() == [0.5, 0.5]
    of_class: Any = tcdsl.Tensor
    assert x.relu().tolist() == x.relu.__func__(x).tolist() == of_class.relu(x).tolist()
    assert x.unsqueeze(0).shape == (1, 2)
    assert x.softmax(axis=0).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("name", ["relu", "unsqueeze", "softmax", "allclose", "expand"])
def test_a_method_is_pickled_by_its_name(name: str) -> None:
    method = getattr(tcdsl.Tensor, name)
    assert pickle.loads(pickle.dumps(method)) is method
    assert method.__name__ == name


def public_rooms() -> dict[str, Any]:
    """Return the modules that users import, by their names: rooms, and those that rooms list."""
    found: dict[str, Any] = {"tcdsl": tcdsl, "tcdsl.library": library}
    further = ("nn.parameter", "optim.lr_scheduler", "utils.checkpoint", "utils.data")
    asked = [importlib.import_module(f"tcdsl.{n}") for n in (*sorted(ROOMS), *further)]
    while asked:
        room = asked.pop()
        if room.__name__ not in found:
            found[room.__name__] = room
            listed = (getattr(room, n) for n in getattr(room, "__all__", ()))
            asked += [at for at in listed if isinstance(at, ModuleType)]
    return found


def modules_named(value: Any) -> set[str]:
    """Return the modules that a pickle of it names, other projects' left out."""
    ops = pickletools.genops(pickle.dumps(value, protocol=2))
    named = {str(arg).split()[0] for op, arg, _ in ops if op.name == "GLOBAL"}
    return {name for name in named if name.startswith("tcdsl")}


def test_what_is_public_is_pickled_by_its_public_name() -> None:
    rooms = public_rooms()
    assert {"tcdsl.nn.functional", "tcdsl.nn.init", "tcdsl.linalg", "tcdsl.optim"} <= {*rooms}
    count = 0
    for at, room in rooms.items():
        lists_all = at not in ("tcdsl", "tcdsl.library", "tcdsl.nn")
        for name in getattr(room, "__all__", ()) if lists_all else dir(room):
            made = getattr(room, name)
            if not callable(made) or not hasattr(made, "__name__") or name.startswith("_"):
                continue
            is_ours = getattr(made, "__module__", "").startswith("tcdsl")
            if not is_ours or (at == "tcdsl" and isinstance(made, type)):
                continue  # pickles of kernels: tests/tcdsl/test_saved.py
            count += 1
            assert pickle.loads(pickle.dumps(made)) is made, name
            assert modules_named(made) <= {*rooms}, f"{at}.{name}"
    assert count > 1300


def test_what_models_hold_is_pickled_by_public_names() -> None:
    layers = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(), nn.LSTM(4, 4)
    model, x = nn.Sequential(*layers), library.ones(2, 3)
    optimizer = optim.Adam(model[0].parameters())
    model[0](x).sum().backward()
    optimizer.step()
    held = [
        model, optimizer, optim.lr_scheduler.StepLR(optimizer, 3), x.max(1), x.shape, x.dtype,
        x.device, library.channels_last, distributions.Normal(0.0, 1.0), library.Generator(),
        data.TensorDataset(x),
    ]  # fmt: skip
    rooms = {*public_rooms()}
    for value in held:
        assert modules_named(value)
        assert modules_named(value) <= rooms


def test_a_pickle_that_names_files_is_read() -> None:
    for name in ("optim.adam\nAdam", "nn.modules.linear\nLinear", "ops.pools\nmax_pool2d"):
        assert pickle.loads(f"ctcdsl.{name}\n.".encode()).__name__ == name.split()[1]
    old = pickle.dumps(library.arange(3.0), protocol=0)
    for name, at in (("_restored", "tensors.protocols"), ("dtype_named", "core.dtypes")):
        now = f"ctcdsl.serialization\n{name}\n".encode()
        assert now in old
        old = old.replace(now, f"ctcdsl.{at}\n{name}\n".encode())
    assert pickle.loads(old).tolist() == [0, 1, 2]
