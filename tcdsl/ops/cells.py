"""One step of layers over time, as functions of the weights."""

from __future__ import annotations

from typing import Any

from tcdsl.core import Tensor, made_by
from tcdsl.ops import recurrent
from tcdsl.ops.embeddings import embedding as _looked_up
from tcdsl.ops.table import publish


def _stepped(
    name: str, op: Any, gates: int, input: Tensor, states: Any, weights: tuple[Any, ...]
) -> list[Tensor]:
    """Return the states after one step.

    Parameters
    ----------
    name, op, gates
        Of the function, the op of the layer, how many parts its weights have.
    input : Tensor, shape (B, I)
    states : sequence of Tensor, shape (B, N)
    weights : (g N, I), (g N, N), and (g N,) twice, or None twice
    """
    w_ih, w_hh, b_ih, b_hh = weights
    size = w_hh.shape[1]
    for wanted, found, what in (
        (w_ih.shape[1], input.shape[1], "input_size"),
        *((size, s.shape[1], "hidden_size") for s in states),
    ):
        if wanted != found:
            raise RuntimeError(f"{name}: inconsistent {what}: got {found}, expected {wanted}")
    if b_ih is None or b_hh is None:
        zeros = input.new_zeros(gates * size)
        b_ih, b_hh = (zeros if b is None else b for b in (b_ih, b_hh))
    parts = [w_ih, w_hh, b_ih, b_hh]
    if gates > 1:
        parts = [w.view(gates, size, *w.shape[1:]) for w in parts]
    made = op(input.unsqueeze(0), *states, *parts)
    return [row[1] for row in (made if isinstance(made, tuple) else (made,))]


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> Tensor:
    """Return ``tanh(w_ih x + b_ih + w_hh h + b_hh)``, (B, N)."""
    made = _stepped("rnn_tanh_cell", recurrent.rnn_tanh, 1, input, (hx,), (w_ih, w_hh, b_ih, b_hh))
    return made_by(made[0], "TanhBackward0")


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> Tensor:
    """Return ``relu(w_ih x + b_ih + w_hh h + b_hh)``, (B, N)."""
    made = _stepped("rnn_relu_cell", recurrent.rnn_relu, 1, input, (hx,), (w_ih, w_hh, b_ih, b_hh))
    return made_by(made[0], "ReluBackward0")


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> Tensor:
    """Return the state of a gated recurrent unit after one step, (B, N)."""
    made = _stepped("gru_cell", recurrent.gru, 3, input, (hx,), (w_ih, w_hh, b_ih, b_hh))
    return made_by(made[0], "AddBackward0")


def lstm_cell(
    input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Any = None, b_hh: Any = None
) -> tuple[Tensor, Tensor]:
    """Return the state and the cell of long short-term memory after one step, (B, N) each.

    Parameters
    ----------
    hx : pair of Tensor
        State and cell before.
    """
    weights = (w_ih, w_hh, b_ih, b_hh)
    state, cell = _stepped("lstm_cell", recurrent.lstm_step, 4, input, tuple(hx), weights)
    return made_by(state, "MulBackward0"), made_by(cell, "AddBackward0")


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return rows of a table: `nn.functional.embedding` with the table first.

    A `padding_idx` of -1 is none.
    """
    at = None if padding_idx < 0 else padding_idx
    return _looked_up(indices, weight, at, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


for _function in (rnn_tanh_cell, rnn_relu_cell, gru_cell, lstm_cell, embedding):
    publish(_function, (_function.__name__,), on=("torch",))
