"""In PyTorch: attention with a bias of one's own, ALiBi, as a term of the sum."""

import torch

import tcdsl.torch as tct

# What is added to the scores is one expression; the mask is another. Change them as you like.
ATTENTION = """
def attention(float(B,H,T,D) Q, float(B,H,S,D) K, float(B,H,S,D) V, float(H) slope) -> (O) {
  Z(b, h, i, j) +=! Q(b, h, i, d) * K(b, h, j, d)
  A(b, h, i, j) = j > i ? -inf : Z(b, h, i, j) * rsqrt(float(D)) + slope(h) * float(j - i)
  top(b, h, i) max=! A(b, h, i, j)
  E(b, h, i, j) = exp(A(b, h, i, j) - top(b, h, i))
  R(b, h, i) +=! E(b, h, i, j)
  P(b, h, i, j) = E(b, h, i, j) / R(b, h, i)
  O(b, h, i, d) +=! P(b, h, i, j) * V(b, h, j, d)
}"""

attention = tct.define(ATTENTION)


def in_torch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, slope: torch.Tensor
) -> torch.Tensor:
    """Return the same by torch: the bias is a tensor as large as the scores."""
    back = torch.arange(k.shape[2]) - torch.arange(q.shape[2])[:, None]
    bias = (slope[:, None, None] * back).masked_fill(back > 0, -torch.inf)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, bias)


def main() -> None:
    torch.manual_seed(0)
    heads = 4
    q, k, v = (torch.randn(2, heads, 37, 16, requires_grad=True) for _ in range(3))
    slope = torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)], requires_grad=True)
    operands, seed = (q, k, v, slope), torch.randn(2, heads, 37, 16)
    for function in (attention, torch.compile(attention, fullgraph=True)):
        torch.testing.assert_close(function(*operands), in_torch(*operands))
        found = torch.autograd.grad(function(*operands), operands, seed)
        wanted = torch.autograd.grad(in_torch(*operands), operands, seed)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    print("attention with ALiBi, and the gradient of its slopes:", found[3].tolist())


if __name__ == "__main__":
    main()
