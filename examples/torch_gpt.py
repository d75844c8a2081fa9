"""In PyTorch: a small GPT; its RMSNorm is one text, its rotated (RoPE) causal attention another."""

from collections.abc import Callable

import torch
from torch import nn

import tcdsl.torch as tct

T = tct.define_all("""
def rms_norm(float(..., D) X, float(D) gain) -> (Y) {
  s(...) +=! X(..., d) * X(..., d)
  Y(..., d) = X(..., d) * rsqrt(s(...) / D + 1e-5) * gain(d)
}
# X holds queries, keys and values as the projection wrote them: nothing is split or transposed.
def attention(float(B,T,3,H,2,E) X, float(T,E) c, float(T,E) s) -> (float(B,T,H,2,E) O) {
  Q(b, h, t, 0, e) = X(b, t, 0, h, 0, e) * c(t, e) - X(b, t, 0, h, 1, e) * s(t, e)
  Q(b, h, t, 1, e) = X(b, t, 0, h, 1, e) * c(t, e) + X(b, t, 0, h, 0, e) * s(t, e)
  K(b, h, t, 0, e) = X(b, t, 1, h, 0, e) * c(t, e) - X(b, t, 1, h, 1, e) * s(t, e)
  K(b, h, t, 1, e) = X(b, t, 1, h, 1, e) * c(t, e) + X(b, t, 1, h, 0, e) * s(t, e)
  Z(b, h, i, j) +=! Q(b, h, i, k, e) * K(b, h, j, k, e)
  A(b, h, i, j) = j > i ? -inf : Z(b, h, i, j) * rsqrt(float(2 * E))
  top(b, h, i) max=! A(b, h, i, j)
  W(b, h, i, j) = exp(A(b, h, i, j) - top(b, h, i))
  R(b, h, i) +=! W(b, h, i, j)
  P(b, h, i, j) = W(b, h, i, j) / R(b, h, i)
  O(b, i, h, k, e) +=! P(b, h, i, j) * X(b, j, 2, h, k, e)
}""")


def rms_norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return nn.functional.rms_norm(x, gain.shape, gain, 1e-5)


def attention(x: torch.Tensor, c: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    """Return what T.attention does, by torch."""

    def rotated(y: torch.Tensor) -> torch.Tensor:
        a, b, cos, sin = y[..., 0, :], y[..., 1, :], c[:, None], s[:, None]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).transpose(1, 2)

    q, k, v = x.unbind(2)
    y = nn.functional.scaled_dot_product_attention(
        rotated(q), rotated(k), v.flatten(-2).transpose(1, 2), is_causal=True
    )
    return y.transpose(1, 2).unflatten(-1, (2, -1))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, norm: Callable, attend: Callable) -> None:
        super().__init__()
        self.norm, self.attend, self.heads = norm, attend, heads
        self.gains = nn.Parameter(torch.ones(2, width))
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor, c: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        seen = self.project(self.norm(x, self.gains[0])).unflatten(-1, (3, self.heads, 2, -1))
        x = x + self.out(self.attend(seen, c, s).flatten(2))
        return x + self.mlp(self.norm(x, self.gains[1]))


class GPT(nn.Module):
    def __init__(
        self,
        symbols: int,
        width: int = 32,
        heads: int = 4,
        depth: int = 2,
        norm: Callable = T.rms_norm,
        attend: Callable = T.attention,
    ) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(symbols, width), nn.Linear(width, symbols)
        self.blocks = nn.ModuleList(Block(width, heads, norm, attend) for _ in range(depth))
        self.register_buffer("speeds", 1e-4 ** torch.linspace(0, 1, width // heads // 2))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        angles = torch.arange(tokens.shape[1], dtype=x.dtype)[:, None] * self.speeds
        for block in self.blocks:
            x = block(x, angles.cos(), angles.sin())
        return self.head(x)


def train(model: nn.Module, symbols: torch.Tensor, steps: int, length: int = 33) -> list[float]:
    """Train to foretell each next symbol; return the losses."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    random, losses = torch.Generator().manual_seed(0), []
    for _ in range(steps):
        starts = torch.randint(len(symbols) - length, (8, 1), generator=random)
        rows = symbols[starts + torch.arange(length + 1)]
        logits = model(rows[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    torch.manual_seed(0)
    text = "she sells sea shells on the sea shore; the shells she sells are sea shells. " * 4
    letters = sorted(set(text))
    symbols = torch.tensor([letters.index(x) for x in text])
    ours, plain = GPT(len(letters)), GPT(len(letters), norm=rms_norm, attend=attention)
    plain.load_state_dict(ours.state_dict())
    torch.testing.assert_close(
        torch.compile(ours, fullgraph=True)(symbols[None, :33]), plain(symbols[None, :33])
    )

    losses, beside = train(ours, symbols, 40), train(plain, symbols, 40)
    torch.testing.assert_close(losses[:5], beside[:5], rtol=1e-3, atol=1e-3)
    assert losses[-1] < losses[0] / 4
    print(f"loss {losses[0]:.2f} to {losses[-1]:.2f}; by torch alone to {beside[-1]:.2f}")


if __name__ == "__main__":
    main()
