"""The four kinds of layers over time: names, ops, gates; one network run over inputs."""

from __future__ import annotations

from tcdsl import library
from tcdsl.core import Tensor
from tcdsl.ops import recurrent

__all__ = ["GATES", "mode_of", "run"]

GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3, "LSTM_STEP": 4}
_OPS = {
    "RNN_TANH": recurrent.rnn_tanh,
    "RNN_RELU": recurrent.rnn_relu,
    "LSTM": recurrent.lstm,
    "GRU": recurrent.gru,
    "LSTM_STEP": recurrent.lstm_step,
}


def mode_of(nonlinearity: str) -> str:
    """Return the kind of an Elman network; ValueError of other names than tanh and relu."""
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
    return f"RNN_{nonlinearity.upper()}"


def run(
    mode: str,
    x: Tensor,
    begin: list[Tensor],
    weights: list[Tensor],
    size: int,
    projection: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Run a network; of its states, and cells, row t is the one before element t.

    Parameters
    ----------
    mode : str
        A key of `GATES`.
    x : Tensor, shape (T, B, I)
    begin : list of Tensor, shape (B, N)
        The state, and the cell of an LSTM, to begin with.
    weights : list of Tensor
        (g N, I), (g N, N), and (g N,) twice where there are biases.
    size : int
        N.
    projection : Tensor, shape (P, N), optional
        Of an LSTM: states are this times what they would be, (B, P).
    """
    gates = GATES[mode]
    if len(weights) == 2:
        zeros = library.zeros(gates * size, dtype=x.dtype, device=x.device)
        weights = [*weights, zeros, zeros]
    if gates > 1:
        weights = [w.view(gates, size, *w.shape[1:]) for w in weights]
    if projection is not None:
        rows = recurrent.lstm_projected(x, *begin, *weights, projection)
    else:
        rows = _OPS[mode](x, *begin, *weights)
    return rows if isinstance(rows, tuple) else (rows,)
