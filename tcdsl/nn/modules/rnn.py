"""Layers over time: Elman networks, LSTM, GRU, and their cells."""

from __future__ import annotations

import math
from typing import Any, Self

from tcdsl import library
from tcdsl.core import Tensor
from tcdsl.nn import functional, init
from tcdsl.nn.modules.module import Module
from tcdsl.nn.parameter import Parameter
from tcdsl.nn.placed import blank, placed
from tcdsl.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from tcdsl.ops import recurrent

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_OPS = {
    "RNN_TANH": (recurrent.rnn_tanh, 1),
    "RNN_RELU": (recurrent.rnn_relu, 1),
    "LSTM": (recurrent.lstm, 4),
    "GRU": (recurrent.gru, 3),
    "LSTM_STEP": (recurrent.lstm_step, 4),
}


class RNNBase(Module):
    """Layers over time, each one program.

    Parameters
    ----------
    mode : str
        'RNN_TANH', 'RNN_RELU', 'LSTM' or 'GRU'.
    input_size, hidden_size : int
        I and N.
    num_layers : int
        Layers, each on the outputs of the one before.
    bias : bool
        Whether gates have numbers added.
    batch_first : bool
        Whether inputs and outputs are (B, T, ...), not (T, B, ...).
    dropout : float
        How likely an output of a layer but the last is left out while training.
    bidirectional : bool
        Whether a second network goes through each sequence from its end.

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, ... : Parameter
        Shapes (g N, I), (g N, N), (g N,), (g N,), g the number of gates; a name ends in
        ``_reverse`` for the second network. At first uniform in +- 1 / sqrt(N).
    """

    @placed
    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                f"element being zeroed, got {dropout}"
            )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self._directions = 2 if bidirectional else 1
        gates = _OPS[mode][1] * hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else hidden_size * self._directions
            for direction in range(self._directions):
                shapes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (gates, inputs),
                    "weight_hh": (gates, hidden_size),
                }
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
                for name, shape in shapes.items():
                    setattr(self, _name(name, layer, direction), Parameter(blank(shape)))
        self.reset_parameters()

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """Parameters of each layer and direction."""
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")[: 4 if self.bias else 2]
        return [
            [getattr(self, _name(kind, layer, direction)) for kind in kinds]
            for layer in range(self.num_layers)
            for direction in range(self._directions)
        ]

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> Self:
        """Return self: parameters need not lie in one block here."""
        return self

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Go through sequences.

        Parameters
        ----------
        input : Tensor, shape (T, B, I), or PackedSequence
        hx : Tensor, shape (num_layers * directions, B, N), optional
            States to begin with, zeros by default; for an LSTM a pair, states and cells.

        Returns
        -------
        output : Tensor, shape (T, B, directions * N), or PackedSequence
        states : as hx
            After the last element of each sequence.
        """
        lengths = None
        x = input
        order = back = None
        if isinstance(input, PackedSequence):
            order, back = input.sorted_indices, input.unsorted_indices
            x, lengths = pad_packed_sequence(PackedSequence(input.data, input.batch_sizes))
        elif self.batch_first:
            x = input.transpose(0, 1)
        self._check_input(x)
        begin = self._begin(x, hx)
        if order is not None and hx is not None:
            begin = tuple(state.index_select(1, order) for state in begin)
        ends: list[tuple[Tensor, ...]] = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(self._directions):
                number = layer * self._directions + direction
                states = self._run(number, x, [s[number] for s in begin], lengths, direction)
                outputs.append(states[0])
                ends.append(states[1:])
            x = outputs[0] if len(outputs) == 1 else library.cat(outputs, 2)
            if self.dropout and layer + 1 < self.num_layers:
                x = functional.dropout(x, self.dropout, self.training)
        last = tuple(library.stack(list(column), 0) for column in zip(*ends, strict=True))
        if back is not None:
            last = tuple(state.index_select(1, back) for state in last)
        if lengths is not None:
            x = PackedSequence(*pack_padded_sequence(x, lengths)[:2], order, back)
        elif self.batch_first:
            x = x.transpose(0, 1)
        return x, last if self.mode == "LSTM" else last[0]

    def _run(
        self, number: int, x: Tensor, begin: list[Tensor], lengths: Any, backwards: int
    ) -> tuple[Tensor, ...]:
        """Return the outputs of one network in one direction, and its last states."""
        if backwards:
            x = _reversed(x, lengths)
        weights = self.all_weights[number]
        rows = _compute(self.mode, x, begin, weights, self.hidden_size)
        output = rows[0][1:]
        if backwards:
            output = _reversed(output, lengths)
        return output, *(_last(r, lengths) for r in rows)

    def _check_input(self, x: Tensor) -> None:
        if x.dim() != 3:
            raise RuntimeError(f"input must have 3 dimensions, got {x.dim()}")
        if x.size(2) != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, "
                f"got {x.size(2)}"
            )

    def _begin(self, x: Tensor, hx: Any) -> tuple[Tensor, ...]:
        """Return the states to begin with."""
        shape = (self.num_layers * self._directions, x.size(1), self.hidden_size)
        count = 2 if self.mode == "LSTM" else 1
        if hx is None:
            return (library.zeros(shape, dtype=x.dtype, device=x.device),) * count
        states = tuple(hx) if self.mode == "LSTM" else (hx,)
        if len(states) != count:
            raise RuntimeError(f"expected {count} states, got {len(states)}")
        for state in states:
            if tuple(state.shape) != shape:
                raise RuntimeError(f"Expected hidden size {shape}, got {list(state.shape)}")
        return states

    def extra_repr(self) -> str:
        """Return the sizes, and what differs from the defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0}
        for name, value in {**usual, "bidirectional": False}.items():
            if getattr(self, name) != value:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(RNNBase):
    """``h = tanh(W x + b + U h + c)`` over time, or relu of it; see `RNNBase`.

    Parameters
    ----------
    input_size, hidden_size, num_layers
        As of `RNNBase`.
    nonlinearity : str
        'tanh' or 'relu'.
    bias, batch_first, dropout, bidirectional
        As of `RNNBase`.
    """

    @placed
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            _mode_of(nonlinearity),
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
        )
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory over time; see `RNNBase` for parameters.

    ``i, f, g, o = W x + b + U h + c``, ``c = s(f) c + s(i) tanh(g)``, ``h = s(o) tanh(c)``, s the
    sigmoid.

    References
    ----------
    Hochreiter and Schmidhuber, "Long short-term memory", 1997.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent units over time; see `RNNBase` for parameters.

    ``r, z = s(W x + b + U h + c)``, ``n = tanh(W x + b + r (U h + c))``, ``h = (1 - z) n + z h``.

    References
    ----------
    Cho et al., "Learning phrase representations using RNN encoder-decoder for statistical machine
    translation", 2014.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """One step of a layer over time.

    Parameters
    ----------
    input_size, hidden_size : int
        I and N.
    bias : bool
        Whether gates have numbers added.

    Attributes
    ----------
    weight_ih, weight_hh, bias_ih, bias_hh : Parameter
        Shapes (g N, I), (g N, N), (g N,), (g N,), g the number of gates; the last two may be None.
        At first uniform in +- 1 / sqrt(N).
    """

    mode = ""
    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    @placed
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = _OPS[self.mode][1] * hidden_size
        self.weight_ih = Parameter(blank(gates, input_size))
        self.weight_hh = Parameter(blank(gates, hidden_size))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(blank(gates)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _step(self, input: Tensor, states: Any) -> list[Tensor]:
        """Return the states after one step."""
        if input.dim() != 2 or input.size(1) != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {list(input.shape)}, "
                f"expected (B, {self.input_size})"
            )
        shape = (input.size(0), self.hidden_size)
        count = 2 if self.mode == "LSTM" else 1
        if states is None:
            zeros = library.zeros(shape, dtype=input.dtype, device=input.device)
            states = (zeros,) * count
        for state in states:
            if tuple(state.shape) != shape:
                raise RuntimeError(f"hidden has shape {list(state.shape)}, expected {list(shape)}")
        weights = [self.weight_ih, self.weight_hh]
        if self.bias_ih is not None and self.bias_hh is not None:
            weights += [self.bias_ih, self.bias_hh]
        mode = "LSTM_STEP" if self.mode == "LSTM" else self.mode
        rows = _compute(mode, input.unsqueeze(0), list(states), weights, self.hidden_size)
        return [r[1] for r in rows]

    def extra_repr(self) -> str:
        """Return the sizes, and what differs from the defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        return text if self.bias else text + ", bias=False"


class RNNCell(RNNCellBase):
    """One step of `RNN`.

    Parameters
    ----------
    input_size, hidden_size, bias
        As of `RNNCellBase`.
    nonlinearity : str
        'tanh' or 'relu'.
    """

    @placed
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.__dict__["mode"] = _mode_of(nonlinearity)
        super().__init__(input_size, hidden_size, bias)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next state, (B, N), of an input (B, I) and a state."""
        return self._step(input, None if hx is None else (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of `LSTM`."""

    mode = "LSTM"

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Tensor]:
        """Return the next state and cell, (B, N) each, of an input (B, I) and such a pair."""
        state, cell = self._step(input, hx)
        return state, cell


class GRUCell(RNNCellBase):
    """One step of `GRU`."""

    mode = "GRU"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next state, (B, N), of an input (B, I) and a state."""
        return self._step(input, None if hx is None else (hx,))[0]


def _name(kind: str, layer: int, direction: int) -> str:
    return f"{kind}_l{layer}" + ("_reverse" if direction else "")


def _mode_of(nonlinearity: str) -> str:
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
    return f"RNN_{nonlinearity.upper()}"


def _compute(
    mode: str, x: Tensor, begin: list[Tensor], weights: list[Any], size: int
) -> tuple[Tensor, ...]:
    """Run a network; of its states, and cells, row t is the one before element t."""
    op, gates = _OPS[mode]
    if len(weights) == 2:
        zeros = library.zeros(gates * size, dtype=x.dtype, device=x.device)
        weights = [*weights, zeros, zeros]
    if gates > 1:
        weights = [w.view(gates, size, *w.shape[1:]) for w in weights]
    rows = op(x, *begin, *weights)
    return rows if isinstance(rows, tuple) else (rows,)


def _last(rows: Tensor, lengths: Any) -> Tensor:
    """Return the state behind each sequence's last element, (B, N) of (T + 1, B, N)."""
    if lengths is None:
        return rows[-1]
    batch = rows.size(1)
    places = [int(n) * batch + b for b, n in enumerate(lengths.tolist())]
    return rows.reshape(-1, rows.size(2)).index_select(0, library.tensor(places))


def _reversed(x: Tensor, lengths: Any) -> Tensor:
    """Return each sequence from its end, (T, B, ...); what lies behind it stays."""
    if lengths is None:
        return x.flip(0)
    steps, batch = x.size(0), x.size(1)
    ends = [int(n) for n in lengths.tolist()]
    places = [
        (n - 1 - t if t < n else t) * batch + b for t in range(steps) for b, n in enumerate(ends)
    ]
    flat = x.reshape(steps * batch, *x.shape[2:])
    return flat.index_select(0, library.tensor(places)).reshape(x.shape)
