"""Random numbers: one source a process draws from, its seed, its state.

Kernels make their numbers themselves, `rand(seed, c)` of the language; what they need is a seed for
each call, and that is drawn here (`Generator.draw_seed`). Permutations and the like are NumPy's.
"""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tcdsl.calls.process.locks import Lock

if TYPE_CHECKING:
    from tcdsl.core import Tensor

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]

_MASK = (1 << 64) - 1
_STATE_WORDS = 15  # seed, counter 4, key 2, buffer 4, place in it, half a word left: 2, version
_VERSION = 1


class Generator:
    """A source of random numbers: Philox4x64-10 under a seed of 64 bits.

    Calls from several threads are served one by one. A forked child goes on as its parent would
    have: give it a seed of its own where that matters, as `DataLoader` does.

    Parameters
    ----------
    device : str
        'cpu'; numbers for a GPU come from seeds that are drawn here as well.

    References
    ----------
    Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
    """

    def __init__(self, device: str = "cpu") -> None:
        if str(device) != "cpu":
            raise RuntimeError(f"expected device 'cpu', got '{device}'")
        self._lock = Lock()
        self.manual_seed(_seed_of_the_system())

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the lock: a copy has its own."""
        with self._lock:
            return {"_seed": self._seed, "_bits": copy.deepcopy(self._bits)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become what `__getstate__` was asked of."""
        vars(self).update(state, _lock=Lock())

    def manual_seed(self, seed: int) -> Generator:
        """Begin anew from a seed; return self.

        Parameters
        ----------
        seed : int
            -2**63 to 2**64 - 1; a negative one counts from 2**64 downwards.

        Raises
        ------
        RuntimeError
            If it is outside.
        """
        number = int(seed)
        if not -(1 << 63) <= number <= _MASK:
            raise RuntimeError(
                f"manual_seed: expected a seed from -2**63 to 2**64 - 1, got {number}"
            )
        with self._lock:
            self._seed = number & _MASK
            self._bits = np.random.Philox(key=self._seed)
        return self

    def seed(self) -> int:
        """Begin anew from a seed that the system draws; return that."""
        number = _seed_of_the_system()
        self.manual_seed(number)
        return number

    def initial_seed(self) -> int:
        """Return the seed that the numbers began from."""
        return self._seed

    def draw_seed(self) -> int:
        """Draw a seed for a kernel, 64 bits."""
        with self._lock:
            return int(self._bits.random_raw())

    @contextlib.contextmanager
    def numpy(self) -> Iterator[np.random.Generator]:
        """Lend the source to NumPy; nobody else draws meanwhile."""
        with self._lock:
            yield np.random.Generator(self._bits)

    def get_state(self) -> Tensor:
        """Return the state, a tensor of bytes."""
        from tcdsl.core import from_numpy  # late: who only draws seeds needs no tensors

        with self._lock:
            state: Any = copy.deepcopy(self._bits.state)
            seed = self._seed
        words = [seed, *state["state"]["counter"], *state["state"]["key"], *state["buffer"]]
        words += [state["buffer_pos"], state["has_uint32"], state["uinteger"], _VERSION]
        assert len(words) == _STATE_WORDS
        return from_numpy(np.array(words, np.uint64).view(np.uint8))

    def set_state(self, state: Tensor) -> Generator:
        """Go on from a state; return self.

        Parameters
        ----------
        state : Tensor, uint8
            What `get_state` has returned.

        Raises
        ------
        RuntimeError
            If it is none.
        """
        raw = np.ascontiguousarray(state.numpy())
        if raw.dtype != np.uint8 or raw.ndim != 1 or raw.size % 8:
            raise RuntimeError("set_state: expected the tensor of bytes that get_state returned")
        words = raw.view(np.uint64)
        if words.size != _STATE_WORDS or int(words[-1]) != _VERSION or int(words[11]) > 4:
            raise RuntimeError("set_state: expected the tensor of bytes that get_state returned")
        bits = np.random.Philox(key=int(words[0]))
        known: Any = bits.state
        known["state"] = {"counter": words[1:5].copy(), "key": words[5:7].copy()}
        known["buffer"] = words[7:11].copy()
        known["buffer_pos"], known["has_uint32"], known["uinteger"] = (int(w) for w in words[11:14])
        bits.state = known
        with self._lock:
            self._seed, self._bits = int(words[0]), bits
        return self


def _seed_of_the_system() -> int:
    return int.from_bytes(os.urandom(8), "little")


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Begin the process's random numbers anew from a seed; return their generator.

    Parameters
    ----------
    seed : int
        -2**63 to 2**64 - 1.

    Notes
    -----
    The numbers are the same in every run, but not those that PyTorch draws under the same seed.
    """
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Begin the process's random numbers anew from a seed of the system; return that."""
    return default_generator.seed()


def initial_seed() -> int:
    """Return the seed that the process's random numbers began from."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return the state of the process's random numbers, a tensor of bytes."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Let the process's random numbers go on from a state that `get_rng_state` returned."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: object = None, enabled: bool = True) -> Iterator[None]:
    """Let the body draw random numbers without changing those that are drawn after it.

    Parameters
    ----------
    devices : ignored
        Numbers for GPUs come from the same source.
    enabled : bool
        False: do nothing.
    """
    state = default_generator.get_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            default_generator.set_state(state)
