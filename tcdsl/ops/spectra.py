"""Fourier transforms under the names of PyTorch 0.4: pairs in the last dimension."""

from __future__ import annotations

import math
from typing import Any

from tcdsl.core import Tensor
from tcdsl.ops.casting import wide
from tcdsl.ops.copies import flip, pad
from tcdsl.ops.joins import cat, stack
from tcdsl.ops.table import Family, publish

ops = Family(__file__)
_radix = ops.op("radix")
_LARGEST = 32  # of the factors that a transform is cut into, primes apart


def _factors(n: int) -> list[int]:
    """Return numbers whose product is n: primes, put together as long as they stay small."""
    found: list[int] = []
    prime = 2
    while n > 1:
        if prime * prime > n:
            prime = n
        while n % prime == 0:
            n //= prime
            if found and found[-1] * prime <= _LARGEST:
                found[-1] *= prime
            else:
                found.append(prime)
        prime += 1
    return found


def _transformed(re: Tensor, im: Tensor, way: int) -> tuple[Tensor, Tensor]:
    """Transform the last dimension of (B, N), each factor of N by one kernel.

    What stands at ``p * M + m`` comes to stand at ``k + P * j``: the digits of a place by the
    factors are those of the place before, from the other end.
    """
    rows, n = re.shape
    factors = _factors(n)
    done = 1
    for p in factors:
        form = (rows * done, p, n // (done * p))
        re, im = _radix(re.reshape(form), im.reshape(form), way)
        done *= p
    order = (0, *range(len(factors), 0, -1))
    digits = (rows, *factors)
    return (
        re.reshape(digits).permute(order).reshape(rows, n),
        im.reshape(digits).permute(order).reshape(rows, n),
    )


def _along(re: Tensor, im: Tensor, dim: int, way: int) -> tuple[Tensor, Tensor]:
    """Transform one dimension."""
    turned = re.transpose(dim, -1)
    shape = tuple(turned.shape)
    flat = (math.prod(shape[:-1]), shape[-1])
    a, b = _transformed(turned.reshape(flat), im.transpose(dim, -1).reshape(flat), way)
    return a.reshape(shape).transpose(dim, -1), b.reshape(shape).transpose(dim, -1)


def _check(name: str, input: Tensor, dims: int, *, is_complex: bool) -> None:
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"{name}: Expected an input of floats, got {input.dtype}")
    if not 1 <= dims <= 3:
        raise RuntimeError(f"{name}: Expected signal_ndim to be 1, 2, or 3, but got {dims}")
    if input.ndim < dims + is_complex:
        raise RuntimeError(
            f"{name}: Given signal_ndim={dims}, expected an input tensor of at least "
            f"{dims + is_complex}D"
            + (" (complex input adds an extra dimension)" * is_complex)
            + f", but got input={list(input.shape)}"
        )
    if is_complex and input.shape[-1] != 2:
        raise RuntimeError(
            f"{name}: Expected an input tensor with a last dimension of size 2 representing "
            f"real + imaginary components, but got input={list(input.shape)}"
        )
    if not input.numel():
        raise RuntimeError(f"{name}: Expected a non-empty input, got {list(input.shape)}")


def _scaled(x: Tensor, elements: int, normalized: bool, *, back: bool) -> Tensor:
    if normalized:
        return x * (1 / math.sqrt(elements))
    return x * (1 / elements) if back else x


def _complex(name: str, input: Tensor, dims: int, normalized: bool, way: int) -> Tensor:
    _check(name, input, dims, is_complex=True)
    re, im = input.select(-1, 0), input.select(-1, 1)
    for dim in range(re.ndim - dims, re.ndim):
        re, im = _along(re, im, dim, way)
    count = math.prod(re.shape[re.ndim - dims :])
    return _scaled(stack([re, im], -1), count, normalized, back=way > 0)


def fft(input: Tensor, signal_ndim: int, normalized: bool = False) -> Tensor:
    """Return the Fourier transform of the last dimensions.

    ``X[k] = sum_n x[n] exp(-2 pi i k n / N)``, over each of the dimensions.

    Parameters
    ----------
    input : Tensor, shape (..., N1, .., 2)
        Real and imaginary parts last.
    signal_ndim : int
        How many dimensions are transformed, 1 to 3.
    normalized : bool
        Divide by the root of their elements.

    Returns
    -------
    Tensor, of input's shape

    References
    ----------
    Cooley and Tukey, "An algorithm for the machine calculation of complex Fourier series", 1965.
    """
    return _complex("fft", input, signal_ndim, normalized, -1)


def ifft(input: Tensor, signal_ndim: int, normalized: bool = False) -> Tensor:
    """Return what `fft` makes the input of; parameters as of it."""
    return _complex("ifft", input, signal_ndim, normalized, 1)


def rfft(
    input: Tensor, signal_ndim: int, normalized: bool = False, onesided: bool = True
) -> Tensor:
    """Return the Fourier transform of real numbers.

    Parameters
    ----------
    input : Tensor, shape (..., N1, .., Nd)
    signal_ndim, normalized
        As of `fft`.
    onesided : bool
        Leave out what is the conjugate of the rest: ``Nd // 2 + 1`` elements are left of Nd.

    Returns
    -------
    Tensor, shape (..., N1, .., Nd // 2 + 1, 2)
    """
    _check("rfft", input, signal_ndim, is_complex=False)
    re, im = input, input * 0.0
    for dim in range(input.ndim - 1, input.ndim - 1 - signal_ndim, -1):
        re, im = _along(re, im, dim, -1)
        if onesided and dim == input.ndim - 1:
            kept = input.shape[-1] // 2 + 1
            re, im = re.narrow(-1, 0, kept), im.narrow(-1, 0, kept)
    count = math.prod(input.shape[input.ndim - signal_ndim :])
    return _scaled(stack([re, im], -1), count, normalized, back=False)


def irfft(
    input: Tensor,
    signal_ndim: int,
    normalized: bool = False,
    onesided: bool = True,
    signal_sizes: Any = None,
) -> Tensor:
    """Return the real numbers that `rfft` makes the input of.

    Parameters
    ----------
    input : Tensor, shape (..., N1, .., Nd // 2 + 1, 2)
    signal_ndim, normalized, onesided
        As of `rfft`.
    signal_sizes : sequence of int, optional
        ``(N1, .., Nd)``; by default Nd is even.
    """
    _check("irfft", input, signal_ndim, is_complex=True)
    re, im = input.select(-1, 0), input.select(-1, 1)
    last = re.ndim - 1
    sizes = [*re.shape[re.ndim - signal_ndim :]]
    if signal_sizes:
        if len(signal_sizes) != signal_ndim:
            raise RuntimeError(
                f"irfft: Expected signal_sizes to have {signal_ndim} dimensions, but got "
                f"{list(signal_sizes)}"
            )
        sizes = [int(n) for n in signal_sizes]
    elif onesided:
        sizes[-1] = 2 * (sizes[-1] - 1)
    kept = sizes[-1] // 2 + 1 if onesided else sizes[-1]
    if [*re.shape[re.ndim - signal_ndim :]] != [*sizes[:-1], kept]:
        raise RuntimeError(
            f"irfft: Expected an input of {[*sizes[:-1], kept, 2]} for signal_sizes={sizes}, but "
            f"got {list(input.shape)}"
        )
    for dim in range(re.ndim - signal_ndim, last):
        re, im = _along(re, im, dim, 1)
    if onesided:
        mirrored = sizes[-1] - kept
        re = cat([re, flip(re.narrow(-1, 1, mirrored), [last])], -1)
        im = cat([im, -flip(im.narrow(-1, 1, mirrored), [last])], -1)
    re, _ = _along(re, im, last, 1)
    return _scaled(re, math.prod(sizes), normalized, back=True)


_OF_TODAY = {"center", "pad_mode", "return_complex", "hop_length", "win_length"}


@wide
def stft(
    signal: Tensor,
    frame_length: int | None = None,
    hop: int | None = None,
    fft_size: int | None = None,
    normalized: bool = False,
    onesided: bool = True,
    window: Tensor | None = None,
    pad_end: int = 0,
    **today: Any,
) -> Tensor:
    """Return the Fourier transforms of frames of signals.

    Parameters
    ----------
    signal : Tensor, shape (B, L) or (L,)
    frame_length : int
    hop : int
        From a frame to the next one.
    fft_size : int, optional
        Elements that a frame has with zeros behind it; frame_length by default.
    normalized, onesided
        As of `rfft`.
    window : Tensor, shape (frame_length,), optional
        Weights of a frame.
    pad_end : int
        Zeros behind the signal.
    n_fft, hop_length, win_length, center, pad_mode, return_complex
        As PyTorch has them from 0.4.1 on, by name, in the place of frame_length, hop and fft_size;
        where one of the last three is named, those before them may come first without a name.

    Returns
    -------
    Tensor, shape (B, frames, fft_size // 2 + 1, 2)
        With `n_fft` (B, n_fft // 2 + 1, frames, 2).
    """
    if _OF_TODAY & today.keys() and "n_fft" not in today:  # what came first is named then
        named = {"n_fft": frame_length, "hop_length": hop, "win_length": fft_size}
        today = {**{n: v for n, v in named.items() if v is not None}, **today}
        frame_length = hop = fft_size = None
    if "n_fft" in today:
        if frame_length is not None or hop is not None or fft_size is not None or pad_end:
            raise TypeError("stft() takes n_fft and hop_length, or frame_length and hop")
        return _stft_of_today(signal, window=window, normalized=normalized, onesided=onesided,
                              **today)  # fmt: skip
    if today:
        raise TypeError(f"stft() got an unexpected keyword argument '{next(iter(today))}'")
    if frame_length is None or hop is None:
        raise TypeError("stft() takes frame_length and hop, or n_fft by name")
    size = frame_length if fft_size is None else fft_size
    if not 0 < frame_length <= size:
        raise RuntimeError(
            f"stft: Expected 0 < frame_length <= fft_size, but got frame_length={frame_length} and "
            f"fft_size={size}"
        )
    if window is not None and tuple(window.shape) != (frame_length,):
        raise RuntimeError(
            f"stft: Expected a 1D window tensor of size equal to frame_length={frame_length}, but "
            f"got {list(window.shape)}"
        )
    return _framed(signal, frame_length, hop, size, normalized, onesided, window, pad_end)


def _framed(
    signal: Tensor,
    length: int,
    hop: int,
    size: int,
    normalized: bool,
    onesided: bool,
    window: Tensor | None,
    zeros: int,
) -> Tensor:
    if signal.ndim not in (1, 2):
        raise RuntimeError(f"stft: Expected a 1D or 2D tensor, but got {signal.ndim}D")
    if zeros:
        signal = pad(signal, (0, zeros))
    if hop <= 0 or signal.shape[-1] < length:
        raise RuntimeError(
            f"stft: Expected hop > 0 and a signal of at least {length} elements, but got "
            f"hop={hop} and {list(signal.shape)}"
        )
    frames: Tensor = signal.unfold(-1, length, hop)
    if window is not None:
        frames = frames * window
    if size > length:
        frames = pad(frames, (0, size - length))
    return rfft(frames, 1, normalized, onesided)


def _stft_of_today(
    signal: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool = False,
) -> Tensor:
    if return_complex:
        raise RuntimeError(
            "stft: there are no complex tensors: return_complex=False gives pairs, (..., 2)"
        )
    length = n_fft if win_length is None else win_length
    if window is not None and length < n_fft:
        before = (n_fft - length) // 2
        window = pad(window, (before, n_fft - length - before))
    elif length < n_fft:
        ones = signal.detach().new_ones(length)
        before = (n_fft - length) // 2
        window = pad(ones, (before, n_fft - length - before))
    if center:
        row = signal.unsqueeze(0) if signal.ndim == 1 else signal
        row = pad(row.unsqueeze(0), (n_fft // 2, n_fft // 2), pad_mode).squeeze(0)
        signal = row.squeeze(0) if signal.ndim == 1 else row
    hop = n_fft // 4 if hop_length is None else hop_length
    made = _framed(signal, n_fft, hop, n_fft, normalized, onesided is not False, window, 0)
    turned: Tensor = made.transpose(-3, -2)
    return turned


for _function in (fft, ifft, rfft, irfft, stft):
    publish(_function, (_function.__name__,))
