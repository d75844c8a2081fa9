"""GradScaler: losses times a number, so that gradients of a narrow type do not vanish."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

from tcdsl import library
from tcdsl.codegen.device import devices
from tcdsl.core import Tensor

__all__ = ["GradScaler"]

_READY, _UNSCALED, _STEPPED = range(3)


class GradScaler:
    """Scales losses, unscales gradients, and leaves out steps whose gradients are not finite.

    The scale grows after so many steps without an infinite gradient, and shrinks at each one.

    Parameters
    ----------
    device : str
        For "cuda" without a GPU it warns and is not enabled.
    init_scale : float
    growth_factor, backoff_factor : float
        What the scale is multiplied by, above 1 and below.
    growth_interval : int
        Steps in a row before it grows.
    enabled : bool
        False: all of it changes nothing.

    Examples
    --------
    >>> scaler = GradScaler("cpu", init_scale=4.0)
    >>> scaler.scale(loss).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()

    References
    ----------
    Micikevicius et al., "Mixed precision training", 2018.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if device not in ("cpu", "cuda"):
            raise RuntimeError(f"GradScaler: expected device 'cpu' or 'cuda', got '{device}'")
        if enabled and device == "cuda" and not devices.count():
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=2,
            )
            enabled = False
        self._device, self._enabled = device, enabled
        if not enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._scale, self._good_steps = float(init_scale), 0
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._stages: dict[int, int] = {}  # of optimizers since the last update
        self._infinite: dict[int, bool] = {}

    def scale(self, outputs: Any) -> Any:
        """Return a tensor, or an iterable of them, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * library.tensor(self._scale, device=outputs.device)
        if isinstance(outputs, Iterable):
            made = [self.scale(value) for value in outputs]
            return type(outputs)(made) if isinstance(outputs, list | tuple) else iter(made)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale: to clip them, say.

        Raises
        ------
        RuntimeError
            If they are so already, or the optimizer has stepped.
        ValueError
            If a gradient is float16, in which it may be lost.
        """
        if not self._enabled:
            return
        stage = self._stages.get(id(optimizer), _READY)
        if stage == _UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if stage == _STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        found = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        if any(g.dtype is library.float16 for g in found):
            raise ValueError("Attempting to unscale FP16 gradients.")
        inverse = 1.0 / self._scale
        with library.no_grad():
            infinite = [not bool(library.isfinite(g).all()) for g in found]
            for g in found:
                g.mul_(inverse)
        if infinite:
            self._infinite[id(optimizer)] = any(infinite)
        self._stages[id(optimizer)] = _UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the optimizer's step, after `unscale_`, unless a gradient is not finite.

        Raises
        ------
        RuntimeError
            If there is a closure, no gradient, or this is the second call since `update`.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        stage = self._stages.get(id(optimizer), _READY)
        if stage == _STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if stage == _READY:
            self.unscale_(optimizer)
        if id(optimizer) not in self._infinite:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None
        if not self._infinite[id(optimizer)]:
            result = optimizer.step(*args, **kwargs)
        self._stages[id(optimizer)] = _STEPPED
        return result

    def update(self, new_scale: Any = None) -> None:
        """Let the scale grow or shrink by what the steps found, or be a given one."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._infinite:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(self._infinite.values()):
            self._scale, self._good_steps = self._scale * self._backoff_factor, 0
        else:
            self._good_steps += 1
            if self._good_steps == self._growth_interval:
                grown = self._scale * self._growth_factor
                self._scale = grown if _fits(grown) else self._scale
                self._good_steps = 0
        self._stages, self._infinite = {}, {}

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def get_scale(self) -> float:
        """Return the scale, 1 where it is not enabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """Return what the scale grows by."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Let the scale grow by this."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return what the scale shrinks by."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Let the scale shrink by this."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return after how many steps the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Let the scale grow after so many steps."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """Return what another goes on from; nothing where it is not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._good_steps,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` has returned.

        Raises
        ------
        RuntimeError
            If it is empty: its scaler was not enabled.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._good_steps = state_dict["_growth_tracker"]


def _fits(scale: float) -> bool:
    """Whether a scale is finite in float32, which PyTorch keeps it in."""
    return math.isfinite(scale) and scale <= 3.4028234663852886e38
