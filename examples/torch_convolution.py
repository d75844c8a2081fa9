"""In PyTorch: a convolution with an odd window, 13x24, beside torch.nn.functional.conv2d."""

from collections.abc import Callable

import torch

import tcdsl.torch as tct
from tcdsl.tools.timing import interleaved

CONV = """
def conv(float(N,C,H,W) I, float(F,C,KH,KW) K, float(F) b) -> (O) {
  O(n, f, y, x) +=! I(n, c, y + i, x + j) * K(f, c, i, j)
  O(n, f, y, x) = O(n, f, y, x) + b(f)
}"""

conv = tct.define(CONV)
theirs = torch.nn.functional.conv2d


def step(function: Callable, operands: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Return the gradient of a loss by each operand: a training step without the optimizer."""
    return torch.autograd.grad(function(*operands).square().sum(), operands)


def times(operands: list[torch.Tensor]) -> list[float]:
    """Return those of conv2d and ours, forward, then of a step."""
    plain = [t.detach() for t in operands]
    calls = {
        "conv2d": lambda: theirs(*plain),
        "ours": lambda: conv(*plain),
        "conv2d, step": lambda: step(theirs, operands),
        "ours, step": lambda: step(conv, operands),
    }
    return [t.time_ns for t in interleaved(calls, 0.2).values()]


def main() -> None:
    torch.manual_seed(0)
    compiled = torch.compile(conv, fullgraph=True)
    print("in -> out: times of conv2d over ours, forward and training step")
    for c, f in ((1, 1), (1, 8), (3, 16), (16, 16)):
        image, window = torch.randn(2, c, 40, 50), torch.randn(f, c, 13, 24)
        operands = [t.requires_grad_() for t in (image, window, torch.randn(f))]
        torch.testing.assert_close(conv(*operands), theirs(*operands), rtol=1e-4, atol=1e-3)
        for ours, wanted in zip(step(conv, operands), step(theirs, operands), strict=True):
            assert (ours - wanted).abs().max() < 1e-5 * wanted.abs().max()
        torch.testing.assert_close(compiled(*operands), conv(*operands))
        ns = times(operands)
        print(f"{c:3} -> {f:2}: {ns[0] / ns[1]:5.2f} {ns[2] / ns[3]:5.2f}")


if __name__ == "__main__":
    main()
