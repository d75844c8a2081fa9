"""Layers over time: Elman networks, LSTM, GRU."""

from __future__ import annotations

import math
import warnings
from typing import Any, Self

from tcdsl import library
from tcdsl.core import Tensor, made_by
from tcdsl.nn import functional, init
from tcdsl.nn.modules.module import Module
from tcdsl.nn.modules.rnn_modes import GATES, mode_of, run
from tcdsl.nn.parameter import Parameter
from tcdsl.nn.placed import blank, placed
from tcdsl.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]


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
    proj_size : int
        P: states of an LSTM are P numbers, products of its outputs with a matrix; 0: they are N.

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_hr_l0, ... : Parameter
        Shapes (g N, I), (g N, N or P), (g N,), (g N,), (P, N), g the number of gates; a name ends
        in ``_reverse`` for the second network. At first uniform in +- 1 / sqrt(N).
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
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={num_layers}",
                stacklevel=4,
            )
        sizes = {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}
        for name, size in sizes.items():
            if not isinstance(size, int):
                raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
            if size <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if proj_size and mode != "LSTM":
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._directions = 2 if bidirectional else 1
        gates = GATES[mode] * hidden_size
        state = proj_size or hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else state * self._directions
            for direction in range(self._directions):
                shapes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (gates, inputs),
                    "weight_hh": (gates, state),
                }
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    setattr(self, _name(name, layer, direction), Parameter(blank(shape)))
        self.reset_parameters()

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """Parameters of each layer and direction."""
        kinds = ["weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if self.bias else ())]
        kinds += ["weight_hr"] if self.proj_size else []
        return [
            [getattr(self, _name(kind, layer, direction)) for kind in kinds]
            for layer in range(self.num_layers)
            for direction in range(self._directions)
        ]

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1 / math.sqrt(self.hidden_size)
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
            One sequence may lack the dimension B; outputs and states do then too.
        hx : Tensor, shape (num_layers * directions, B, N or P), optional
            States to begin with, zeros by default; for an LSTM a pair, states and cells, whose
            cells are (num_layers * directions, B, N).

        Returns
        -------
        output : Tensor, shape (T, B, directions * (N or P)), or PackedSequence
        states : as hx
            After the last element of each sequence.
        """
        lengths = None
        x = input
        order = back = None
        if not isinstance(input, PackedSequence):
            if input.dim() not in (2, 3):
                word = "D tensor" if self.mode.startswith("RNN") else "D"
                raise ValueError(
                    f"{type(self).__name__}: Expected input to be 2D or 3D, got "
                    f"{input.dim()}{word} instead"
                )
            if hx is not None:
                self._check_dimensions(input, hx)
            if input.dim() == 2:
                return self._forward_one(input, hx)
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
            if self.dropout and self.training and layer + 1 < self.num_layers:
                x = self._dropped(x, lengths)
        last = tuple(
            made_by(library.stack(list(column), 0), "StackBackward0")
            for column in zip(*ends, strict=True)
        )
        if back is not None:
            last = tuple(state.index_select(1, back) for state in last)
        if lengths is not None:
            x = PackedSequence(*pack_padded_sequence(x, lengths)[:2], order, back)
        elif self.batch_first:
            x = made_by(x.transpose(0, 1), f"TransposeBackward{int(self.mode != 'LSTM')}")
        elif self._directions == 1:  # what PyTorch calls a layer over time
            one = "MkldnnRnnLayerBackward0" if self.mode == "LSTM" else "StackBackward0"
            made_by(x, one)
        return x, last if self.mode == "LSTM" else last[0]

    def _check_dimensions(self, input: Tensor, hx: Any) -> None:
        """Refuse states that have a dimension B where inputs have none, and those that lack it."""
        kind = "unbatched 2-D" if input.dim() == 2 else "batched 3-D"
        pair = self.mode == "LSTM"
        dims = [state.dim() for state in (hx if pair else [hx])]
        if any(dim != input.dim() for dim in dims):
            said = ", ".join(f"{dim}-D" for dim in dims)
            raise RuntimeError(
                f"For {kind} input, hx{' and cx' if pair else ''} should also be {input.dim()}-D "
                f"but got {f'({said}) tensors' if pair else f'{said} tensor'}"
            )

    def _forward_one(self, input: Tensor, hx: Any) -> Any:
        """Go through one sequence, (T, I)."""
        pair = self.mode == "LSTM"
        if hx is not None:
            hx = tuple(state.unsqueeze(1) for state in hx) if pair else hx.unsqueeze(1)
        batch = 0 if self.batch_first else 1
        x, last = self.forward(input.unsqueeze(batch), hx)
        last = tuple(state.squeeze(1) for state in last) if pair else last.squeeze(1)
        return x.squeeze(batch), last

    def _dropped(self, x: Tensor, lengths: Any) -> Tensor:
        """Leave out elements of sequences, none of what fills them up: numbers are for these."""
        if lengths is None:
            return functional.dropout(x, self.dropout)
        data, sizes = pack_padded_sequence(x, lengths)[:2]
        return pad_packed_sequence(PackedSequence(functional.dropout(data, self.dropout), sizes))[0]

    def _run(
        self, number: int, x: Tensor, begin: list[Tensor], lengths: Any, backwards: int
    ) -> tuple[Tensor, ...]:
        """Return the outputs of one network in one direction, and its last states."""
        if backwards:
            x = _reversed(x, lengths)
        weights: list[Tensor] = [*self.all_weights[number]]
        projection = weights.pop() if self.proj_size else None
        rows = run(self.mode, x, begin, weights, self.hidden_size, projection)
        output = rows[0][1:]
        if backwards:
            output = _reversed(output, lengths)
        return output, *(_last(r, lengths) for r in rows)

    def _check_input(self, x: Tensor) -> None:
        if x.size(2) != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, "
                f"got {x.size(2)}"
            )

    def _begin(self, x: Tensor, hx: Any) -> tuple[Tensor, ...]:
        """Return the states to begin with."""
        rows = (self.num_layers * self._directions, x.size(1))
        shapes = [(*rows, self.proj_size or self.hidden_size)]
        if self.mode == "LSTM":
            shapes.append((*rows, self.hidden_size))
        if hx is None:
            zeros = (library.zeros(shape, dtype=x.dtype, device=x.device) for shape in shapes)
            return tuple(zeros)
        states = tuple(hx) if self.mode == "LSTM" else (hx,)
        if len(states) != len(shapes):
            raise RuntimeError(f"expected {len(shapes)} states, got {len(states)}")
        for number, (state, shape) in enumerate(zip(states, shapes, strict=True)):
            if tuple(state.shape) != shape:
                what = f"hidden[{number}]" if self.mode == "LSTM" else "hidden"
                raise RuntimeError(f"Expected {what} size {shape}, got {list(state.shape)}")
        return states

    def extra_repr(self) -> str:
        """Return the sizes, and what differs from the defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0}
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
            mode_of(nonlinearity),
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


def _name(kind: str, layer: int, direction: int) -> str:
    return f"{kind}_l{layer}" + ("_reverse" if direction else "")


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
