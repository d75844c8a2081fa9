"""Where a call meant another thing in PyTorch 0.4 than it does today, and how that is given back.

Found in the release notes of 0.4.0 to 2.13 ("breaking changes") and the migration guide of 0.4.
"""

from __future__ import annotations

import textwrap

from tcdsl.grammar.text.dataclass import dataclass

__all__ = ["DIFFERENCES", "KEPT", "Difference", "listing"]


@dataclass(frozen=True)
class Difference:
    """One of them.

    Attributes
    ----------
    name : str
    then, now : str
        What PyTorch 0.4 does, and what 2.13 does.
    swap : str
        The function that gives back the former, as ``module.function`` of this folder.
    """

    name: str
    then: str
    now: str
    swap: str


DIFFERENCES = (
    Difference(
        "integer division",
        "`/` and div of integers round towards 0",
        "they give floats",
        "arithmetic.division",
    ),
    Difference(
        "floor division",
        "`//` rounds towards 0",
        "it rounds down",
        "arithmetic.floor_division",
    ),
    Difference(
        "numbers",
        "a Python number is cast to the tensor's type: tensor(5) * 0.5 is 0",
        "a float makes integers floats",
        "arithmetic.promotion",
    ),
    Difference(
        "tensors of rank 0",
        "on the right of an operator they count as numbers",
        "they promote what is of a lower kind",
        "arithmetic.promotion",
    ),
    Difference(
        "types of operands",
        "tensors of two types are refused: 'Expected object of type torch.FloatTensor but found "
        "type torch.DoubleTensor for argument #2 'other''",
        "they are promoted to one",
        "arithmetic.promotion",
    ),
    Difference(
        "functions of floats",
        "exp and its kin refuse integers: 'exp is not implemented for type torch.LongTensor'",
        "they give floats",
        "arithmetic.functions_of_floats",
    ),
    Difference(
        "comparisons",
        "they give uint8, so that sums and differences of masks are numbers",
        "they give bools",
        "masks.comparisons",
    ),
    Difference(
        "inversion",
        "`~` is 1 - x of uint8, and refuses all other types",
        "it turns every bit round",
        "masks.inversion",
    ),
    Difference(
        "tensors of bools",
        "tensor([True]) is of uint8",
        "it is of bool",
        "factories.bools",
    ),
    Difference(
        "masks of bytes",
        "masked_fill, masked_select and masked_scatter take masks of uint8",
        "they take bools only",
        "masks.of_bytes",
    ),
    Difference(
        "subscripts of bytes",
        "x[mask of uint8] is no reason to warn",
        "it warns: deprecated",
        "masks.subscripts",
    ),
    Difference(
        "full",
        "full((2,), 3) is of the default type of floats",
        "it is of the number's type",
        "factories.full",
    ),
    Difference(
        "arange",
        "arange(3) is of the default type of floats",
        "of integers it is of int64",
        "factories.arange",
    ),
    Difference(
        "randint",
        "randint(9, (2,)) is of the default type of floats",
        "it is of int64",
        "factories.randint",
    ),
    Difference(
        "subscript of a scalar",
        "loss.data[0] is refused in the words 'Use tensor.item() to convert a 0-dim tensor to a "
        "Python number'",
        "the words name C++ too",
        "masks.scalar_words",
    ),
    Difference(
        "align_corners",
        "grid_sample and affine_grid: -1 and 1 are the middles of the outer elements",
        "by default they are their outer sides",
        "layers.corners",
    ),
    Difference(
        "scale_factor",
        "upsample and interpolate compute the scale again from the two sizes",
        "they use scale_factor as it is",
        "layers.scale_factor",
    ),
    Difference(
        "multilabel_soft_margin_loss",
        "unreduced it is (N, C), and its sum is over all elements",
        "it is the mean over C, (N,)",
        "layers.multilabel_soft_margin",
    ),
    Difference(
        "nll_loss of nothing",
        "the mean over targets that are all ignored is 0",
        "it is NaN",
        "layers.nll_of_nothing",
    ),
    Difference(
        "zero_grad",
        "it fills gradients with zeros",
        "it takes them away (None)",
        "training.zero_grad",
    ),
    Difference(
        "scheduler.step",
        "the first call, before the first epoch, begins epoch 0",
        "it ends epoch 0, and is called behind optimizer.step",
        "training.first_epoch",
    ),
    Difference(
        "eps of Adam",
        "it is added to the root before v is corrected: eps counts for more in the first steps",
        "it is added after",
        "training.eps_of_adam",
    ),
    Difference(
        "clip_grad_norm_",
        "it returns a float",
        "it returns a tensor",
        "training.clipped_norm",
    ),
)

# What differs and stays as it is today, each with the reason.
KEPT = {
    "printing": "tensors are printed as today: 0.4 left room for a sign before every number",
    "seeds": "the same seed gives other numbers than any version of PyTorch",
    "unique": "results are sorted, which 0.4 left open",
    "data of leaves": "`.data` has a version count of its own in both",
    "bool": "torch.bool stays, which 0.4 does not have",
    "state_dict": "layers of batches also keep num_batches_tracked, as from 0.4.1 on",
}


def listing() -> str:
    """Return the table as text for people."""
    lines = []
    for d in DIFFERENCES:
        lines.append(d.name)
        for head, text in (("0.4", d.then), ("2.13", d.now)):
            lines.append(textwrap.fill(f"{head}: {text}", 96, initial_indent="    ",
                                       subsequent_indent="          "))  # fmt: skip
        lines.append(f"    swapped by tcdsl/as_torch/{d.swap.replace('.', '.py: ')}")
    lines += ["", "Not swapped:"]
    lines += [f"    {name}: {why}" for name, why in KEPT.items()]
    return "\n".join(lines)
