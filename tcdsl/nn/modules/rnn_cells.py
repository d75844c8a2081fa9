"""One step of layers over time."""

from __future__ import annotations

import math
from typing import Any

from tcdsl import library
from tcdsl.core import Tensor, made_by
from tcdsl.nn import init
from tcdsl.nn.modules.module import Module
from tcdsl.nn.modules.rnn_modes import GATES, mode_of, run
from tcdsl.nn.parameter import Parameter
from tcdsl.nn.placed import blank, placed

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


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
        gates = GATES[self.mode] * hidden_size
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
        """Return the states after one step of a batch, or of one input without that dimension."""
        said = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{said}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if self.mode == "LSTM" and isinstance(states, Tensor):
            raise TypeError(f"{said}: expected hx as a pair of tensors, (h, c), got one Tensor")
        for number, state in enumerate(() if states is None else states):
            if state.dim() not in (1, 2):
                what = f"hx[{number}]" if self.mode == "LSTM" else "hidden"
                raise ValueError(
                    f"{said}: Expected {what} to be 1D or 2D, got {state.dim()}D instead"
                )
        if input.dim() == 1:
            one = None if states is None else [state.unsqueeze(0) for state in states]
            return [row.squeeze(0) for row in self._step(input.unsqueeze(0), one)]
        if input.size(1) != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {input.size(1)} expected {self.input_size}"
            )
        if states is None:
            shape = (input.size(0), self.hidden_size)
            zeros = library.zeros(shape, dtype=input.dtype, device=input.device)
            states = (zeros,) * (2 if self.mode == "LSTM" else 1)
        for state in states:
            if state.size(0) != input.size(0):
                raise RuntimeError(
                    f"Input batch size {input.size(0)} doesn't match hidden0 batch size "
                    f"{state.size(0)}"
                )
            if state.dim() != 2 or state.size(1) != self.hidden_size:
                raise RuntimeError(
                    f"hidden0 has inconsistent hidden_size: got {state.shape[-1]}, expected "
                    f"{self.hidden_size}"
                )
        weights: list[Tensor] = [self.weight_ih, self.weight_hh]
        if self.bias_ih is not None and self.bias_hh is not None:
            weights += [self.bias_ih, self.bias_hh]
        mode = "LSTM_STEP" if self.mode == "LSTM" else self.mode
        rows = run(mode, input.unsqueeze(0), list(states), weights, self.hidden_size)
        return [made_by(r[1], name) for r, name in zip(rows, self._nodes(), strict=True)]

    def _nodes(self) -> tuple[str, ...]:
        """Return what recorded steps are called: by what PyTorch does last."""
        last = {"LSTM": ("Mul", "Add"), "GRU": ("Add",), "RNN_RELU": ("Relu",)}
        return tuple(f"{name}Backward0" for name in last.get(self.mode, ("Tanh",)))

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
        self.__dict__["mode"] = mode_of(nonlinearity)
        super().__init__(input_size, hidden_size, bias)
        self.nonlinearity = nonlinearity

    def extra_repr(self) -> str:
        """Return the sizes, and what differs from the defaults."""
        text = super().extra_repr()
        usual = self.nonlinearity == "tanh"
        return text if usual else f"{text}, nonlinearity={self.nonlinearity}"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next state, (B, N), of an input (B, I) and a state; of one input, (N,)."""
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
        """Return the next state, (B, N), of an input (B, I) and a state; of one input, (N,)."""
        return self._step(input, None if hx is None else (hx,))[0]
