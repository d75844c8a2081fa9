"""Wrong uses are refused in PyTorch's types and words."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tcdsl import autograd, library, nn, optim

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

OURS = SimpleNamespace(t=library, nn=nn, F=nn.functional, optim=optim, Function=autograd.Function)
THEIRS = SimpleNamespace(
    t=torch,
    nn=torch.nn,
    F=torch.nn.functional,
    optim=torch.optim,
    Function=torch.autograd.Function,
)


def _leaf(u: Any) -> Any:
    return u.t.ones(2, 3, requires_grad=True)


def _twice(u: Any) -> None:
    x = _leaf(u)
    y = (x * x).sum()
    y.backward()
    y.backward()


def _twice_by_hand(u: Any) -> None:
    class Square(u.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, d_y: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * x * d_y

    y = Square.apply(_leaf(u)).sum()
    y.backward(retain_graph=True)
    y.backward()
    y.backward()


def _loaded(u: Any, **changed: Any) -> None:
    state = u.nn.Linear(2, 1).state_dict()
    for name, value in changed.items():
        if value is None:
            del state[name]
        else:
            state[name] = value
    u.nn.Linear(2, 1).load_state_dict(state)


# A call an entry; A is of shape (2, 3), B of (4, 5), U a library.
CALLS = """
A + B | U.t.ones(2, 3) + U.t.ones(2, 4) | A.mm(B) | U.t.mm(U.t.ones(2), A) | A @ B
U.t.tensor(1.0) @ A | U.t.mv(A, U.t.ones(4)) | U.t.dot(U.t.ones(2), U.t.ones(3))
U.t.bmm(U.t.ones(2, 3, 4), U.t.ones(2, 5, 6)) | U.t.addmm(U.t.ones(7, 7), A, U.t.ones(3, 4))
U.F.linear(A, B) | U.nn.Linear(4, 2)(A) | U.nn.Conv2d(3, 4, 3)(U.t.ones(1, 2, 5, 5))
U.nn.Conv2d(3, 4, 3)(U.t.ones(5, 5)) | U.t.cat([A, B]) | U.t.cat([]) | U.t.cat([A, U.t.ones(2)])
U.t.stack([A, B]) | A.view(4, 5) | A.view(-1, 4) | A.view(-1, -1) | A.t().view(6) | A.reshape(5)
A.expand(2, 4) | A.expand(3) | A.mm(U.t.ones(3, 2).double()) | U.nn.Linear(3, 2)(A.double())
U.t.ones(2).long().exp_() | U.t.ones(2).long().add_(1.5) | A[2] | A[-3] | A[0, 0, 0]
A[U.t.tensor([5])] | A[1.5] | A[U.t.ones(3, 3) > 0] | A[U.t.ones(2)] | A[::-1]
U.t.tensor(1.0)[0] | A.gather(0, U.t.tensor([[5]])) | A.index_select(0, U.t.tensor([9]))
A.select(0, 5) | A.narrow(0, 1, 3) | U.F.embedding(U.t.tensor([9]), U.t.ones(3, 2)) | A.sum(2)
U.F.softmax(A, dim=3) | A.transpose(0, 2) | A.permute(0) | A.unsqueeze(4) | _twice(U)
_twice_by_hand(U) | _leaf(U).mul(2).backward() | A.sum().backward()
(_leaf(U) * 1).backward(U.t.ones(3)) | _leaf(U).add_(1) | _leaf(U)[0].add_(1)
_leaf(U).__setitem__(0, 1.0) | A.long().requires_grad_() | U.t.tensor([1], requires_grad=True)
setattr(_leaf(U) * 2, "requires_grad", False) | A.item() | bool(A) | bool(U.t.ones(0)) | float(A)
int(A) | _leaf(U).numpy() | len(U.t.tensor(1.0)) | iter(U.t.tensor(1.0)) | copy(_leaf(U) * 2)
_loaded(U, bias=None) | _loaded(U, x=A) | _loaded(U, weight=A) | U.nn.Linear(2, 1)()
U.nn.Linear(2, 1)(A, A) | U.nn.Module()(A) | U.nn.Linear(2, 1).foo
setattr(U.nn.Linear(2, 1), "weight", A) | U.F.cross_entropy(A, U.t.tensor([0, 1, 2]))
U.F.cross_entropy(A, U.t.tensor([0, 7])) | U.F.nll_loss(A, U.t.ones(2)) | U.F.mse_loss(A, B)
U.F.binary_cross_entropy(U.t.ones(2) * 0.5, U.t.ones(3)) | U.nn.BatchNorm1d(3)(U.t.ones(2, 4))
U.nn.BatchNorm1d(3)(U.t.ones(1, 3)) | U.nn.BatchNorm2d(3)(A) | U.nn.LayerNorm(4)(A)
U.F.dropout(A, 1.5) | U.optim.SGD([], lr=0.1) | U.optim.SGD([_leaf(U)], lr=-1.0)
U.optim.SGD([_leaf(U) * 2], lr=0.1) | U.t.tensor([[1, 2], [3]]) | U.t.tensor("x")
U.t.randint(5, 5, (2,)) | U.t.arange(3, 1) | U.t.where(A > 0, A, B) | U.t.ones(0).max()
A.long().mean() | A.topk(5) | A.split([1, 2], 0) | A.chunk(0) | U.t.einsum("ij,jk", A, B)
U.F.one_hot(U.t.tensor([3]), 2) | U.t.tensor([2]) ** -1 | (A > 0) - (A > 0) | -(A > 0) | 1 - (A > 0)
U.t.add(A, None) | U.t.add(_leaf(U), _leaf(U), out=A) | U.t.from_numpy([1])
A.register_hook(print) | A.retain_grad() | U.nn.LSTM(3, 4)(U.t.ones(5, 2, 7))
A.masked_fill(U.t.ones(2, 3).byte(), 1.0) | A.masked_select(U.t.ones(2, 3).byte())
"""


def _calls() -> Iterator[str]:
    for line in CALLS.strip().splitlines():
        yield from (call.strip() for call in line.split(" | "))


def _words(call: str, used: Any) -> tuple[type[BaseException], str]:
    from copy import deepcopy

    names = {"U": used, "A": used.t.ones(2, 3), "B": used.t.ones(4, 5), "copy": deepcopy}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            eval(call, {**globals(), **names})
        except Exception as error:
            return type(error), str(error)
    raise AssertionError(f"{call} is not refused")


def _compare(call: str) -> None:
    wanted, words = _words(call, THEIRS)
    found, mine = _words(call, OURS)
    assert issubclass(found, wanted), f"{found.__mro__}, not {wanted}"
    assert mine == words


@pytest.mark.parametrize("call", ["A + B", "A.mm(B)", "A[2]", "_twice(U)", "_loaded(U, bias=None)"])
def test_a_few_words_are_pytorchs(call: str) -> None:
    _compare(call)


@pytest.mark.wide
@pytest.mark.parametrize("call", list(_calls()))
def test_words_are_pytorchs(call: str) -> None:
    _compare(call)


@pytest.mark.parametrize("refuse", [KeyError, ValueError])
@pytest.mark.wide
def test_what_a_worker_raises_has_its_traceback(refuse: Callable[..., Exception]) -> None:
    from tcdsl.utils.data import DataLoader

    class Broken:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, at: int) -> Any:
            raise refuse("no such sample")

    with pytest.raises(refuse) as found:  # type: ignore[call-overload]
        list(DataLoader(Broken(), num_workers=1))
    text = str(found.value.args[0])
    assert text.startswith(f"Caught {refuse.__name__} in DataLoader worker process 0.\n")
    assert "Original Traceback (most recent call last):" in text
    assert "no such sample" in text
