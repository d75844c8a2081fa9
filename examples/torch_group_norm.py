"""In PyTorch: group norm by a view and one text; parameters are those of nn.GroupNorm."""

import torch
from torch import nn

import tcdsl.torch as tct

GROUP_NORM = """
def group_norm(float(N,G,D,P) X, float(G,D) gamma, float(G,D) beta) -> (Y) {
  m(n, g) +=! X(n, g, d, p) / (D * P)
  v(n, g) +=! (X(n, g, d, p) - m(n, g)) * (X(n, g, d, p) - m(n, g)) / (D * P)
  r(n, g) = rsqrt(v(n, g) + 1e-5)
  a(n, g, d) = gamma(g, d) * r(n, g)
  c(n, g, d) = beta(g, d) - m(n, g) * a(n, g, d)
  Y(n, g, d, p) = X(n, g, d, p) * a(n, g, d) + c(n, g, d)
}"""

group_norm = tct.define(GROUP_NORM)


class GroupNorm(nn.GroupNorm):
    """`nn.GroupNorm` with a forward of our own: the module's parameters and names stay."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        groups = self.num_groups, self.num_channels // self.num_groups
        seen = x.view(x.shape[0], *groups, -1)
        return group_norm(seen, self.weight.view(groups), self.bias.view(groups)).view(x.shape)


def main() -> None:
    torch.manual_seed(0)
    plain, ours = nn.GroupNorm(8, 64), GroupNorm(8, 64)
    nn.init.normal_(plain.weight)
    ours.load_state_dict(plain.state_dict())
    x = torch.randn(4, 64, 14, 14, requires_grad=True)
    seed = torch.randn(4, 64, 14, 14)
    for module in (ours, torch.compile(ours, fullgraph=True)):
        torch.testing.assert_close(module(x), plain(x))
        found = torch.autograd.grad(module(x), [x, *ours.parameters()], seed)
        wanted = torch.autograd.grad(plain(x), [x, *plain.parameters()], seed)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    print("group norm: largest difference", (ours(x) - plain(x)).abs().max().item())


if __name__ == "__main__":
    main()
