"""Convolutions of images of one to three dimensions, under PyTorch's names and defaults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from tcdsl.core import Op, Tensor, made_by
from tcdsl.ops.arguments import several
from tcdsl.ops.casting import lower
from tcdsl.ops.formats import channels_behind, channels_second, has_channels_last
from tcdsl.ops.forms import Forms
from tcdsl.ops.rules import C_NAMES, Operands
from tcdsl.ops.spatial import spatial, with_channels_moved
from tcdsl.ops.table import Family, op_of_text, publish

ops = Family(__file__)
Each = int | Sequence[int]
Sizes = tuple[int, ...]


class _ChannelsLastError(Exception):
    """Channels of what a convolution in C order was called with lie last, by a form new to it."""


def _lie_last(input: Tensor, weight: Tensor) -> bool:
    """Whether channels of the result lie last: where those of the images or the weights do."""
    return has_channels_last(input) or has_channels_last(weight)


@cache
def _op(name: str, rank: int, generics: tuple[tuple[str, int], ...], last: bool = False) -> Op:
    """Return the op of a definition for images of a rank, with its strides and paddings bound."""
    made = op_of_text(_text(name, rank, last))
    return lower(made.with_generics(**dict(generics)))


def _text(name: str, rank: int, last: bool) -> str:
    """Return a definition for images of a rank, whose channels may lie last."""
    text = spatial(ops.text(name), rank)
    return with_channels_moved(text, 2 if "groups" in name else 1) if last else text


_known: dict[tuple[Any, ...], Op] = {}  # of one group, by rank and what calls say


@cache
def _of_one_group(
    rank: int, has_bias: bool, stride: Sizes, padding: Sizes, dilation: Sizes, last: bool
) -> Op:
    """Return the op of convolutions of one group, which looks at shapes that are new to it."""
    plain = op_of_text(_text("conv_bias" if has_bias else "conv", rank, last)).forms

    def shape(operands: Operands) -> None:
        input, weight = operands[:2]
        if not last and _lie_last(input, weight):
            raise _ChannelsLastError
        input = channels_second(input) if last else input
        _check(input, weight, rank, 1)
        _check_window(input, weight, padding, dilation)
        if has_bias:
            _check_bias(input, weight, operands[2])

    generics = dict(generics_of(S=stride, P=padding, D=dilation))
    meaning = replace(plain.meaning, generics=generics, shape=shape)
    made = Forms(plain.name, plain.session, plain.definition, meaning, node=plain.op.name)
    return lower(made.op)


def each(value: Each, rank: int, name: str) -> tuple[int, ...]:
    """Return a number for each dimension."""
    found = tuple(int(v) for v in several(value, rank))
    if len(found) == 1:
        found *= rank
    if len(found) != rank:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {rank} values to match "
            f"the convolution dimensions, but got {name}={list(found)}"
        )
    return found


def generics_of(**named: Sequence[int]) -> tuple[tuple[str, int], ...]:
    """Return S1, S2, .. of S, and so on."""
    return tuple((f"{k}{d + 1}", n) for k, v in named.items() for d, n in enumerate(v))


def _check(input: Tensor, weight: Tensor, rank: int, groups: int) -> None:
    if weight.shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size [{list(weight.shape)}] instead"
        )
    _check_channels(input, weight, rank, weight.shape[1] * groups, groups, f"conv{rank}d")


def _check_channels(
    input: Tensor, weight: Tensor, rank: int, channels: int, groups: int, name: str
) -> None:
    """Refuse shapes that do not go together; name: conv or conv_transpose of the rank."""
    given = "groups"
    if name.startswith("conv_transpose"):
        given, groups = "transposed", 1
    if weight.ndim != rank + 2 or input.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got "
            f"input of size: {list(input.shape)}"
        )
    if input.shape[-rank - 1] != channels:
        raise RuntimeError(
            f"Given {given}={groups}, weight of size {list(weight.shape)}, expected "
            f"input{list(input.shape)} to have {channels} channels, but got "
            f"{input.shape[-rank - 1]} channels instead"
        )


def _check_window(input: Tensor, weight: Tensor, padding: Sizes, dilation: Sizes) -> None:
    """Refuse a window that is larger than the padded image."""
    image, kernel = input.shape[2:], weight.shape[2:]
    for h, k, pad, dil in zip(image, kernel, padding, dilation, strict=True):
        if h + 2 * pad < dil * (k - 1) + 1:
            padded = [n + 2 * q for n, q in zip(image, padding, strict=True)]
            raise RuntimeError(
                "Calculated padded input size per channel: "
                f"({' x '.join(map(str, padded))}). Kernel size: "
                f"({' x '.join(map(str, kernel))}). Kernel size can't be greater than actual "
                "input size"
            )


def _conv(
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Each,
    padding: Each | str,
    dilation: Each,
    groups: int,
) -> Tensor:
    _check(input, weight, rank, groups)
    if input.ndim == rank + 1:
        alone = input.unsqueeze(0)
        found = _conv(rank, alone, weight, bias, stride, padding, dilation, groups)
        return found.squeeze(0)  # type: ignore[no-any-return]
    s, d = each(stride, rank, "stride"), each(dilation, rank, "dilation")
    if isinstance(padding, str):
        input, p = _named_padding(padding, input, tuple(weight.shape[2:]), s, d)
    else:
        p = each(padding, rank, "padding")
    _check_steps(s, p, d)
    _check_window(input, weight, p, d)
    last = _lie_last(input, weight)
    if groups == 1:
        op = _of_one_group(rank, bias is not None, s, p, d, last)
        if all(isinstance(v, int | tuple) for v in (stride, padding, dilation)):
            _known[rank, stride, padding, dilation, bias is None, last] = op
        return _called(op, last, input, weight, bias)
    generics = generics_of(S=s, P=p, D=d)
    f, x = weight.shape[0], _in_groups(input, groups, last)
    w = weight.reshape(groups, f // groups, *weight.shape[1:])
    if bias is None:
        y = _op("conv_groups", rank, generics, last)(x, w)
    else:
        b = bias.reshape(groups, f // groups)
        y = _op("conv_groups_bias", rank, generics, last)(x, w, b)
    return _of_groups(y, last)


def _called(op: Op, last: bool, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return what the op of a convolution of one group gives."""
    x = channels_behind(input) if last else input
    made: Tensor = op(x, weight) if bias is None else op(x, weight, bias)
    return made_by(channels_second(made), op.name) if last else made


def _in_groups(input: Tensor, groups: int, last: bool) -> Tensor:
    """Return images as ops of groups take them: (N, G, C, ...), or (N, ..., G, C)."""
    n, c, *image = input.shape
    if last:
        behind: Tensor = channels_behind(input).reshape(n, *image, groups, c // groups)
        return behind
    return input.reshape(n, groups, c // groups, *image)  # type: ignore[no-any-return]


def _of_groups(made: Tensor, last: bool) -> Tensor:
    """Return images that an op of groups gave."""
    if last:
        return channels_second(made.flatten(-2, -1))
    return made.flatten(1, 2)  # type: ignore[no-any-return]


def _check_bias(input: Tensor, weight: Tensor, bias: Tensor) -> None:
    """Refuse a bias that does not go with what it is added to."""
    if input.dtype is not bias.dtype:
        raise RuntimeError(
            f"Input type ({C_NAMES[input.dtype.name]}) and bias type "
            f"({C_NAMES[bias.dtype.name]}) should be the same"
        )
    if tuple(bias.shape) != (weight.shape[0],):
        raise RuntimeError(
            f"Given weight of size {list(weight.shape)}, expected bias to be 1-dimensional with "
            f"{weight.shape[0]} elements, but got bias of size {list(bias.shape)} instead"
        )


def _named_padding(
    padding: str,
    input: Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[Tensor, tuple[int, ...]]:
    """Return the input and the padding at both ends that a word means."""
    if padding == "valid":
        return input, (0,) * len(kernel)
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: {padding!r}")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    odd = [t % 2 for t in totals]
    if any(odd):  # one more at the end
        from tcdsl.ops.copies import pad  # stands on copies of tensors, as convolutions do not

        input = pad(input, [n for o in reversed(odd) for n in (0, o)])
    return input, tuple(t // 2 for t in totals)


def _check_steps(
    stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...]
) -> None:
    """Refuse steps of nothing, in PyTorch's words."""
    if min(padding) < 0:
        raise RuntimeError("negative padding is not supported")
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(dilation) <= 0:
        raise RuntimeError("dilation should be greater than zero")


def _transposed(
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Each,
    padding: Each,
    output_padding: Each,
    groups: int,
    dilation: Each,
) -> Tensor:
    _check_channels(input, weight, rank, weight.shape[0], groups, f"conv_transpose{rank}d")
    if input.ndim == rank + 1:
        alone = input.unsqueeze(0)
        found = _transposed(
            rank, alone, weight, bias, stride, padding, output_padding, groups, dilation
        )
        return found.squeeze(0)  # type: ignore[no-any-return]
    s, d = each(stride, rank, "stride"), each(dilation, rank, "dilation")
    p, e = each(padding, rank, "padding"), each(output_padding, rank, "output_padding")
    _check_steps(s, p, d)
    if min(e) < 0:
        raise RuntimeError("negative output_padding is not supported")
    if any(one >= max(pair) for one, *pair in zip(e, s, d, strict=True)):
        sides = ("depth", "height", "width")[-rank:]
        raise RuntimeError(
            "output padding must be smaller than either stride or dilation, but got "
            + " ".join(
                f"{name}_{side}: {n}"
                for name, sizes in (("output_padding", e), ("stride", s), ("dilation", d))
                for side, n in zip(sides, sizes, strict=True)
            )
        )
    generics, last = generics_of(S=s, D=d, E=e), _lie_last(input, weight)
    if groups == 1:
        x = channels_behind(input) if last else input
        y = _op("conv_transposed", rank, generics, last)(x, weight)
        y = channels_second(y) if last else y
    else:
        x = _in_groups(input, groups, last)
        w = weight.reshape(groups, input.shape[1] // groups, *weight.shape[1:])
        y = _of_groups(_op("conv_transposed_groups", rank, generics, last)(x, w), last)
    for dim, cut in enumerate(p):
        if cut:
            y = y.narrow(dim + 2, cut, y.shape[dim + 2] - 2 * cut)
    if bias is not None:
        y = y + bias.view(-1, *(1,) * rank)
    if last:
        return channels_second(channels_behind(y).contiguous())
    return y.contiguous()  # type: ignore[no-any-return]


def _named(rank: int) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """Return the convolution of a rank and the transposed one."""
    batched = rank + 2  # dimensions

    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Each = 1,
        padding: Each | str = 0,
        dilation: Each = 1,
        groups: int = 1,
    ) -> Tensor:
        if groups == 1 and input.ndim == batched:
            strided = input.stride(-1) != 1 or weight.stride(-1) != 1
            last = strided and _lie_last(input, weight)
            try:
                op = _known[rank, stride, padding, dilation, bias is None, last]
            except (KeyError, TypeError):  # TypeError: of a list
                pass
            else:
                if last:
                    return _called(op, last, input, weight, bias)
                try:
                    return op(input, weight) if bias is None else op(input, weight, bias)  # type: ignore[no-any-return]
                except _ChannelsLastError:  # of one channel, whose strides in a row are 1
                    pass
        return _conv(rank, input, weight, bias, stride, padding, dilation, groups)

    def transposed(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Each = 1,
        padding: Each = 0,
        output_padding: Each = 0,
        groups: int = 1,
        dilation: Each = 1,
    ) -> Tensor:
        return _transposed(
            rank, input, weight, bias, stride, padding, output_padding, groups, dilation
        )

    image = ", ".join("HWD"[:rank])
    transposed = lower(transposed)
    conv.__name__ = f"conv{rank}d"
    conv.__doc__ = f"""Convolve images: ``out[n, f] = sum(input[n, c] * weight[f, c]) + bias[f]``.

    Parameters
    ----------
    input : Tensor, shape (N, C, {image}) or without N
    weight : Tensor, shape (F, C / groups, ...)
    bias : Tensor, shape (F,), optional
    stride, padding, dilation : int or one for each dimension
        `padding` may be "same" or "valid".
    groups : int
        How many parts of the channels have weights of their own.
    """
    transposed.__name__ = f"conv_transpose{rank}d"
    transposed.__doc__ = f"""Add a window of weights to the output for each element of the input.

    Parameters
    ----------
    input : Tensor, shape (N, C, {image}) or without N
    weight : Tensor, shape (C, F / groups, ...)
    bias : Tensor, shape (F,), optional
    stride, padding, output_padding, dilation : int or one for each dimension
    groups : int
    """
    for made in (conv, transposed):
        publish(made, (made.__name__,), on=("torch",))
    return conv, transposed


conv1d, conv_transpose1d = _named(1)
conv2d, conv_transpose2d = _named(2)
conv3d, conv_transpose3d = _named(3)
