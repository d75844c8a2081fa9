"""Random numbers: one source a process draws from, its seed, its state.

The source makes words, MT19937's; ops make numbers of them as PyTorch does on a CPU
(`ops/drawing.tc`). Kernels that draw for themselves, `rand(seed, c)` of the language, have a seed
of two words.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcdsl.calls.process.locks import Lock
from tcdsl.calls.process.places import found_in

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
    "source_of",
]

_MASK = (1 << 64) - 1
_BLOCK = 624
_LEAST = (
    8  # blocks are made at once, then twice as many, so that small draws seldom call the kernel
)
_MOST = 64  # blocks are kept

# PyTorch's state of a CPU generator: words, then numbers that were made and not yet given out.
_STATE: np.dtype[Any] = np.dtype(
    {
        "names": ["seed", "left", "seeded", "next", "words", "normal", "has_normal"],
        "formats": ["<u8", "<i4", "<i4", "<u8", ("<u8", _BLOCK), "<f8", "<i4"],
        "offsets": [0, 8, 12, 16, 24, 5024, 5040],
        "itemsize": 5056,
    }
)

Words = npt.NDArray[np.uint32]
Bits = npt.NDArray[np.int32]

_SEED = 67280421310721  # of a source that is told none, as PyTorch's
_NO_STATES: Words = np.empty(0, np.uint32)
_NO_WORDS: Bits = np.empty(0, np.int32)


@functools.cache
def _kernel(name: str) -> Any:
    from tcdsl.plain.kernel import kernel_of_ours  # late: who draws nothing needs no kernels

    return kernel_of_ours(Path(__file__).with_name("words.tc").read_text("utf-8"), name)


class Generator:
    """A source of random numbers: MT19937 under a seed, of which it takes 32 bits.

    The numbers are those of PyTorch's CPU generator. Calls from several threads are served one by
    one. A forked child goes on as its parent would have: give it a seed of its own where that
    matters, as `DataLoader` does.

    Parameters
    ----------
    device : str
        'cpu'; numbers for a GPU come from seeds that are drawn here as well.

    Attributes
    ----------
    normal : float or None
        The second of two normal numbers, which the next call gives first.

    References
    ----------
    Matsumoto and Nishimura, "Mersenne Twister", 1998.
    """

    device: Any  # where its numbers are made; tensors say what the CPU is, in `tensors/devices.py`
    _lock = Lock()  # of all: drawing takes it for a moment, and sources are made often

    def __init__(self, device: str = "cpu") -> None:
        if device != "cpu" and str(device) != "cpu":
            raise RuntimeError(f"expected device 'cpu', got '{device}'")
        self._become(_SEED, None, _BLOCK, None)

    def __getstate__(self) -> dict[str, Any]:
        """Return what numbers follow from: neither the lock nor words that can be made again."""
        key, at = self._here()
        return {"seed": self._seed, "key": key.copy(), "at": at, "normal": self.normal}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become what `__getstate__` was asked of."""
        self._become(**state)

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
        self._become(number & _MASK, None, _BLOCK, None)
        return self

    def _become(self, seed: int, key: Words | None, at: int, normal: float | None) -> None:
        """Take over a state: a block before tempering, and how many of its words are drawn.

        Without a block it is the seed's, made when a word is asked for.
        """
        with self._lock.held:
            self._seed, self._at, self.normal = seed, at, normal
            # Blocks in a row: states, and their words, made when one is asked for. Both are never
            # written, only replaced, so that what was drawn may be a view of them.
            self._states: Words = _NO_STATES if key is None else key.reshape(1, _BLOCK)
            self._words: Bits = _NO_WORDS
            self._row: Tensor | None = None  # the same, when one is asked for

    def _here(self) -> tuple[Words, int]:
        """Return the block of the last word drawn, and how many of its words are."""
        with self._lock:
            block = max(self._at - 1, 0) // _BLOCK
            return self._begun()[block], self._at - block * _BLOCK

    def _begun(self) -> Words:
        """Return the blocks that there are, the first one made if need be."""
        if not len(self._states):
            self._states = _first_block(self._seed & 0xFFFFFFFF).reshape(1, _BLOCK)
        return self._states

    def seed(self) -> int:
        """Begin anew from a seed that the system draws; return that."""
        number = _seed_of_the_system()
        self.manual_seed(number)
        return number

    def initial_seed(self) -> int:
        """Return the seed that the numbers began from."""
        return self._seed

    def words(self, count: int) -> Words:
        """Draw words of 32 bits.

        Returns
        -------
        ndarray of uint32, shape (count,)
            Not to be written.
        """
        return self.bits(count).view(np.uint32)

    def bits(self, count: int) -> Bits:
        """Draw words as int32, which is what tensors take; not to be written either."""
        with self._lock.held:
            end = self._at + count
            if end > len(self._words):
                return self._made(count)
            self._at = end
            return self._words[end - count : end]

    def row(self, count: int) -> Tensor:
        """Draw words as a tensor of int32, shape (count,); not to be written either."""
        with self._lock.held:
            end = self._at + count
            row = self._row
            if row is None or end > row.numel():
                return self._made_row(count)
            self._at = end
            drawn: Tensor = row.narrow(0, end - count, count)
            return drawn

    def give_back(self, row: Tensor, count: int) -> None:
        """Let the last words of a row be drawn again, unless others were drawn since.

        They are of no more than half of the words that are kept.
        """
        with self._lock.held:
            kept = self._row
            end = row.data_ptr() + 4 * row.numel()
            if kept is not None and end == kept.data_ptr() + 4 * self._at:
                self._at -= count

    def _made_row(self, count: int) -> Tensor:
        from tcdsl.core import from_numpy  # late: who only draws seeds needs no tensors

        drawn = from_numpy(self.bits(count))
        self._row = from_numpy(self._words)
        return drawn

    def _made(self, count: int) -> Bits:
        """Draw words that no block holds yet: make blocks, from that of the next one on."""
        first = min(self._at // _BLOCK, len(self._begun()) - 1)
        begin = self._at - first * _BLOCK
        twice = min(2 * (len(self._states) - 1), _MOST // 2)
        further = max(-(-(begin + count) // _BLOCK) - 1, twice, _LEAST)
        states, blocks = _kernel("blocks")(self._states[first], further)
        words = blocks.reshape(-1).view(np.int32)
        drawn: Bits = words[begin : begin + count]
        self._at = begin + count
        if further > _MOST:  # the last one alone is kept: others have nothing more to give
            self._at -= further * _BLOCK
            states, words = states[further:].copy(), words[further * _BLOCK :].copy()
        self._states, self._words, self._row = states, words, None
        return drawn

    def draw_seed(self) -> int:
        """Draw a seed for a kernel, 64 bits: two words, the high one first."""
        high, low = self.words(2).tolist()
        return int(high << 32 | low)

    def get_state(self) -> Tensor:
        """Return the state, a tensor of bytes; PyTorch's CPU generators take it too."""
        from tcdsl.core import from_numpy  # late: who only draws seeds needs no tensors

        made = np.zeros((), _STATE)
        with self._lock:
            key, at = self._here()
            made["seed"], made["words"] = self._seed, key
            made["left"], made["seeded"], made["next"] = _BLOCK - at + 1, 1, at % _BLOCK
            if self.normal is not None:
                made["normal"], made["has_normal"] = self.normal, 1
        return from_numpy(np.frombuffer(made.tobytes(), np.uint8).copy())

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
        if raw.dtype != np.uint8 or raw.ndim != 1 or raw.size != _STATE.itemsize:
            raise RuntimeError(
                f"set_state: expected {_STATE.itemsize} bytes of get_state, got {raw.size} of "
                f"{raw.dtype.name}; states that were saved before numbers became PyTorch's are of "
                "another generator and cannot be continued"
            )
        known = raw.view(_STATE)[0]
        left = int(known["left"])
        if not (1 <= left <= _BLOCK and known["seeded"] == 1 and (known["words"] >> 32 == 0).all()):
            raise RuntimeError("set_state: expected the tensor of bytes that get_state returned")
        normal = float(known["normal"]) if known["has_normal"] else None
        key = known["words"].astype(np.uint32)
        self._become(int(known["seed"]), key, _BLOCK + 1 - left, normal)
        return self


def _first_block(seed: int) -> Words:
    """Return the state that MT19937 begins with, as `numpy.random.RandomState` has it.

    Which is not asked: its module takes longer to load than a hundred seeds.
    """
    words = [seed]
    for i in range(1, _BLOCK):
        seed = (1812433253 * (seed ^ seed >> 30) + i) & 0xFFFFFFFF
        words.append(seed)
    return np.array(words, np.uint32)


def _seed_of_the_system() -> int:
    return int.from_bytes(os.urandom(8), "little")


default_generator = Generator()
default_generator.seed()


def source_of(generator: Generator | None) -> Generator:
    """Return where a call draws from: the process' source where it names none."""
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        kind = type(generator).__name__
        raise TypeError(f"argument 'generator' must be torch.Generator, not {kind}")
    return generator


def manual_seed(seed: int) -> Generator:
    """Begin the process's random numbers anew from a seed; return their generator.

    Parameters
    ----------
    seed : int
        -2**63 to 2**64 - 1.

    Notes
    -----
    The numbers on a CPU are those that PyTorch 2.13 draws under the same seed.
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


_PUBLIC = (Generator, fork_rng, get_rng_state, initial_seed, manual_seed, seed, set_rng_state)
found_in("tcdsl", {value.__name__: value for value in _PUBLIC})
