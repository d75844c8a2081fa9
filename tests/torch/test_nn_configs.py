"""Tuned configs travel with a layer: in its state dict, as tensors and no objects."""

from __future__ import annotations

import copy
import io
import json
import pickle
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

from tcdsl.autotune.store.shipped import Shipped  # noqa: E402
from tcdsl.layers.tuned import calls_of  # noqa: E402
from tcdsl.torch.face import LIBRARY  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.cc]

SCALE = "def scale(float(B,N) x, float(N) g) -> (y) { y(b, n) = x(b, n) * g(n) }"
X = torch.randn(3, 4)


def layer(cache: Path) -> Any:
    return tct.nn.TC(SCALE, parameters={"g": 4}, cache=cache)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: Any) -> Any:
    model = torch.nn.Sequential(layer(tmp_path_factory.mktemp("a") / "t.db"))
    model[0].autotune(X, trials=0, quiet=True)
    return model


def known(of: Any) -> list[bool]:
    """Return of each kernel that training a layer runs whether it has a tuned config."""
    seen = calls_of(LIBRARY, of, [X.clone().requires_grad_()], {})
    assert len(seen) == 2
    return [s.kernel.session.tuned(s.variant)(s.problem.spec) is not None for (s, *_) in seen]


def test_a_state_dict_carries_them_through_a_file_of_tensors(tuned: Any, tmp_path: Path) -> None:
    state = tuned.state_dict()
    assert [*state] == ["0.g", "0._extra_state"]
    assert all(isinstance(v, torch.Tensor) for v in state.values())
    assert json.loads(bytes(state["0._extra_state"].tolist()))["rows"]
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    other = torch.nn.Sequential(layer(tmp_path / "none.db"))
    assert known(other) == [False, False]
    other.load_state_dict(torch.load(file, weights_only=True))
    assert known(other) == [True, True]
    assert torch.equal(other(X), tuned(X))
    x = X.clone().requires_grad_()
    other(x).sum().backward()
    assert torch.equal(x.grad, tuned[0].g.expand(3, 4))
    assert torch.equal(other.state_dict()["0._extra_state"], state["0._extra_state"])
    assert not (tmp_path / "none.db").exists()


@pytest.mark.wide
def test_copies_and_pickles_have_them(tuned: Any) -> None:
    for other in (copy.deepcopy(tuned), pickle.loads(pickle.dumps(tuned))):
        assert known(other) == [True, True]
        assert torch.equal(other.state_dict()["0._extra_state"], tuned[0].get_extra_state())


def test_casts_and_copies_of_a_state_dict_do_not_hurt(tuned: Any, tmp_path: Path) -> None:
    state = {n: v.clone().to(torch.bfloat16) for n, v in tuned.state_dict().items()}
    other = torch.nn.Sequential(layer(tmp_path / "none.db"))
    other.load_state_dict(state)
    assert known(other) == [True, True]


def test_without_them_nothing_is_saved_missed_or_lost(tuned: Any, tmp_path: Path) -> None:
    plain = torch.nn.Sequential(layer(tmp_path / "none.db"))
    assert [*plain.state_dict()] == ["0.g"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not plain.load_state_dict(plain.state_dict()).missing_keys
        tuned.load_state_dict(plain.state_dict())
    assert known(tuned) == [True, True]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "0.g"\. $'):
        plain.load_state_dict({})


def test_those_of_another_machine_serve_nobody_and_harm_nobody(tuned: Any, tmp_path: Path) -> None:
    rows = Shipped.from_json(bytes(tuned[0].get_extra_state().tolist()).decode()).rows
    other = layer(tmp_path / "none.db")
    other.keep(replace(r, key=replace(r.key, target="cpu mmx", threads=77)) for r in rows)
    assert known(other) == [False, False]
    assert torch.equal(other(X), X)
    assert len(Shipped.from_json(bytes(other.get_extra_state().tolist()).decode())) == len(rows)
    other.load_state_dict(tuned[0].state_dict())  # beside those
    assert known(other) == [True, True]
    assert len(other.tc.session.settings.configs) == 2 * len(rows)


def _shrunk(tensor: Any) -> Any:
    """Return a tensor whose storage was taken away: PyTorch itself reads past the end of it."""
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.parametrize(
    "state",
    [
        torch.tensor([*b"no json"], dtype=torch.uint8),
        torch.tensor([*b'{"format": "tcdsl configs 1", "rows": [[1]]}'], dtype=torch.uint8),
        torch.tensor([255, 254], dtype=torch.uint8),
        torch.ones(2, 2),
        torch.empty(3, device="meta"),
        torch.ones(3).to_sparse(),
        _shrunk(torch.ones(1 << 20)),
        {"an": "object"},
        None,
    ],
)
def test_what_a_stranger_wrote_is_left_out_with_a_warning(state: Any, tmp_path: Path) -> None:
    other = layer(tmp_path / "none.db")
    with pytest.warns(UserWarning, match="the tuned configs of a state dict are left out: "):
        other.load_state_dict({"g": torch.full((4,), 2.0), "_extra_state": state})
    assert other.g.tolist() == [2] * 4
    assert [*other.state_dict()] == ["g"]


@pytest.mark.wide
def test_tuning_a_model_leaves_them_in_its_layers(tmp_path: Path) -> None:
    first, second = layer(tmp_path / "t.db"), layer(tmp_path / "t.db")
    model = torch.nn.Sequential(first, torch.nn.Linear(4, 4), second, torch.nn.Linear(4, 2))
    tct.autotune(model, X, trials=0, quiet=True)
    counts = [len(m.tc.session.settings.configs) for m in (first, second)]
    assert counts == [2, 2]  # each forward; by g, and by x and g
    assert [n for n in model.state_dict() if n.endswith("_extra_state")] == [
        "0._extra_state",
        "2._extra_state",
    ]
