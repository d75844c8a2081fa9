"""Fourier transforms agree with PyTorch's, and their gradients with differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcdsl
from tcdsl import library
from tcdsl.autograd import gradcheck

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

SIZES = (1, 2, 3, 8, 12, 37, 64, 97, 1000, 1024)


def _normal(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng([7, *shape]).standard_normal(shape)


def _close(mine: tcdsl.Tensor, theirs: object, terms: int, largest: float = 4.0) -> None:
    wanted = np.asarray(theirs)
    assert tuple(mine.shape) == wanted.shape
    tolerance = 8 * np.finfo(wanted.dtype).eps * terms * largest
    assert np.abs(mine.detach().numpy() - wanted).max() <= tolerance


def test_a_transform_is_the_sum_that_its_text_says() -> None:
    n = 12
    x = _normal(n, 2)
    k = np.arange(n)
    wanted = np.exp(-2j * np.pi * np.outer(k, k) / n) @ (x[:, 0] + 1j * x[:, 1])
    made = library.fft(library.tensor(x), 1)
    _close(made, np.stack([wanted.real, wanted.imag], -1), n)


@pytest.mark.wide
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_transforms_of_one_dimension_agree(dtype: str) -> None:
    for n in SIZES:
        x = _normal(3, n, 2).astype(dtype)
        pairs = torch.view_as_complex(torch.from_numpy(x))
        mine = library.tensor(x)
        _close(library.fft(mine, 1), torch.view_as_real(torch.fft.fft(pairs)), n)
        _close(library.ifft(mine, 1), torch.view_as_real(torch.fft.ifft(pairs)), n)
        _close(
            library.fft(mine, 1, normalized=True),
            torch.view_as_real(torch.fft.fft(pairs, norm="ortho")),
            n,
        )
        row = mine.select(-1, 0)  # strided
        real = torch.from_numpy(x[..., 0].copy())
        _close(library.rfft(row, 1), torch.view_as_real(torch.fft.rfft(real)), n)
        _close(library.rfft(row, 1, onesided=False), torch.view_as_real(torch.fft.fft(real)), n)
        back = library.irfft(library.rfft(row, 1), 1, signal_sizes=(n,))
        _close(back, real, n)


@pytest.mark.wide
@pytest.mark.parametrize("dims", [2, 3])
def test_transforms_of_several_dimensions_agree(dims: int) -> None:
    sizes = (4, 6, 5)[:dims]
    x = _normal(2, *sizes)
    over = tuple(range(1, dims + 1))
    mine, terms = library.tensor(x), int(np.prod(sizes))
    pairs = torch.fft.rfftn(torch.from_numpy(x), dim=over)
    _close(library.rfft(mine, dims), torch.view_as_real(pairs), terms)
    _close(library.irfft(library.rfft(mine, dims, True), dims, True, signal_sizes=sizes), x, terms)
    whole = torch.view_as_real(torch.fft.fftn(pairs, dim=over)).numpy()
    _close(library.fft(library.tensor(torch.view_as_real(pairs).numpy()), dims), whole, terms, 99)


@pytest.mark.wide
def test_gradients_agree_with_differences() -> None:
    x = library.tensor(_normal(2, 6, 2), requires_grad=True)
    assert gradcheck(lambda x: library.fft(x, 1), (x,))
    assert gradcheck(lambda x: library.irfft(x, 1, signal_sizes=(11,)), (x,))
    assert gradcheck(lambda x: library.rfft(x.select(-1, 0), 2), (x,))


@pytest.mark.wide
def test_frames_agree() -> None:
    s, w = _normal(2, 40), _normal(8)
    mine, window = library.tensor(s), library.tensor(w)
    more = {"center": False, "return_complex": True}
    wanted = torch.stft(torch.from_numpy(s), 8, 3, window=torch.from_numpy(w), **more)
    frames = torch.view_as_real(wanted).transpose(1, 2)
    _close(library.stft(mine, 8, 3, window=window), frames, 8, 9)
    _close(library.stft(mine[0], 8, 3, window=window), frames[0], 8, 9)
    today = library.stft(mine, n_fft=8, hop_length=3, window=window, center=False)
    _close(today, frames.transpose(1, 2), 8, 9)
    centred = torch.stft(torch.from_numpy(s), 8, win_length=6, return_complex=True)
    made = library.stft(mine, n_fft=8, win_length=6)
    assert library.equal(made, library.stft(mine, 8, win_length=6, return_complex=False))
    _close(made, torch.view_as_real(centred), 8, 9)
    longer = library.stft(mine, 6, 4, 10, pad_end=3)
    assert tuple(longer.shape) == (2, 10, 6, 2)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: library.fft(library.ones(4, 3), 1), "last dimension of size 2"),
        (lambda: library.fft(library.ones(4, 2), 4), "signal_ndim to be 1, 2, or 3, but got 4"),
        (lambda: library.rfft(library.ones(0), 1), "Expected a non-empty input"),
        (lambda: library.irfft(library.ones(4, 2), 1, signal_sizes=(9,)), r"expected|Expected"),
        (lambda: library.stft(library.ones(4), 8, 2), "a signal of at least 8 elements"),
    ],
)
def test_what_cannot_be_transformed_is_refused(call: object, says: str) -> None:
    with pytest.raises(RuntimeError, match=says):
        call()  # type: ignore[operator]
