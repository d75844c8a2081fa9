"""The loss of sequences whose places in time are not known, as PyTorch's nn.functional has it."""

from __future__ import annotations

from typing import Any

from tcdsl.core import Tensor
from tcdsl.core.dtypes import int32, int64
from tcdsl.ops.arguments import listed
from tcdsl.ops.casting import wide
from tcdsl.ops.clamping import clamp
from tcdsl.ops.losses import mean_or_sum
from tcdsl.ops.rules import not_for
from tcdsl.ops.table import Family, publish

ops = Family(__file__)
_ctc = ops.op("ctc", vjp="ctc_vjp")


def _numbers(given: Any, like: Tensor, name: str, count: int) -> tuple[Tensor, list[int]]:
    """Return lengths as a tensor and as numbers."""
    if isinstance(given, Tensor) and given.dtype.is_floating_point:
        raise RuntimeError(f"{name} must be integral")
    numbers = [int(n) for n in listed(_row(given))]
    if len(numbers) != count:
        raise RuntimeError(f"{name} must be of size batch_size")
    held = given.to(int64).reshape(-1) if isinstance(given, Tensor) else _integers(like, numbers)
    return held, numbers


def _integers(like: Tensor, values: list[int]) -> Tensor:
    made: Tensor = like.detach().new_tensor(values, dtype=int64)
    return made


@wide
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return how unlikely targets are of sequences of scores, over all ways to stretch them.

    Parameters
    ----------
    log_probs : Tensor, shape (T, N, C) or (T, C)
        Logarithms of probabilities, as of `log_softmax`. The gradient is right for those.
    targets : Tensor of int64 or int32, shape (N, S), or (sum(target_lengths),): one behind another
    input_lengths, target_lengths : Tensor or sequence of int, shape (N,) or ()
    blank : int
        The class that stands for none.
    reduction : {"mean", "sum", "none"}
        "mean" divides each loss by the length of its target before.
    zero_infinity : bool
        Whether losses of targets that do not fit are 0, and their gradients.

    Raises
    ------
    RuntimeError
        If lengths are not those of the batch, or longer than what there is.

    References
    ----------
    Graves et al., "Connectionist temporal classification", 2006.
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if log_probs.ndim == 2:
        alone = ctc_loss(log_probs.unsqueeze(1), targets.reshape(1, -1), _row(input_lengths),
                         _row(target_lengths), blank, reduction, zero_infinity)  # fmt: skip
        return alone.squeeze(0) if reduction == "none" else alone
    if log_probs.dtype.name not in ("float32", "float64"):
        raise not_for("ctc_loss_cpu", log_probs.dtype)
    if targets.dtype not in (int64, int32):
        raise RuntimeError("Expected tensor targets to have scalar type Long or Int")
    most, n, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    steps, longest = _numbers(input_lengths, log_probs, "input_lengths", n)
    labels, lengths = _numbers(target_lengths, log_probs, "target_lengths", n)
    for name, length in (("input_lengths", longest), ("target_lengths", lengths)):
        if min(length, default=0) < 0:
            raise RuntimeError(f"Expected {name} to have value at least 0, but got {min(length)}")
    if max(longest, default=0) > most:
        raise RuntimeError(
            f"Expected input_lengths to have value at most {most}, but got value {max(longest)} "
            "(while checking arguments for ctc_loss_allocate_outputs)"
        )
    rows = _rows(targets.to(int64), lengths, n)
    out, _ = _ctc(log_probs, rows, steps, labels, int(blank), bool(zero_infinity))
    if reduction == "mean":
        out = out / clamp(labels, min=1).to(log_probs.dtype)
    return mean_or_sum(out, reduction)


def _row(lengths: Any) -> Any:
    return lengths.reshape(-1) if isinstance(lengths, Tensor) else (
        (lengths,) if isinstance(lengths, int) else lengths
    )  # fmt: skip


def _rows(targets: Tensor, lengths: list[int], n: int) -> Tensor:
    """Return a row of targets for each sequence, whatever stands behind its length."""
    most = max(lengths, default=0)
    if targets.ndim == 2:
        if targets.shape[0] != n or targets.shape[1] < most:
            raise RuntimeError(
                f"Expected tensor to have size at least {most} at dimension 1, but got size "
                f"{list(targets.shape)} for argument #2 'targets' (while checking arguments for "
                "ctc_loss_cpu)"
            )
        return targets
    if targets.ndim != 1 or targets.numel() != sum(lengths):
        raise RuntimeError(
            f"Expected tensor to have {sum(lengths)} elements, but got {targets.numel()} for "
            "argument #2 'targets' (while checking arguments for ctc_loss_allocate_outputs)"
        )
    begins = [sum(lengths[:i]) for i in range(n)]
    places = [
        b + s if s < m else 0 for b, m in zip(begins, lengths, strict=True) for s in range(most)
    ]
    if not places:
        return targets.new_zeros((n, most))  # type: ignore[no-any-return]
    return targets.index_select(0, _integers(targets, places)).view(n, most)  # type: ignore[no-any-return]


publish(ctc_loss, ("ctc_loss",), on=("torch",))
