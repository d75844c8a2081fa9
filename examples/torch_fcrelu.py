"""In PyTorch: a layer as text in a model that trains, beside nn.Linear and relu."""

import torch
from sklearn.datasets import load_digits
from torch import nn

import tcdsl.torch as tct

FCRELU = """
def fcrelu(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
  O(b_, n) +=! I(b_, m) * W(n, m)
  O(b_, n)  = fmax(O(b_, n) + b(n), 0)
}"""


def train(model: nn.Module, x: torch.Tensor, labels: torch.Tensor, epochs: int) -> list[float]:
    """Train on batches of 128; return the loss of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(epochs):
        for rows, wanted in zip(x.split(128), labels.split(128), strict=True):
            loss = nn.functional.cross_entropy(model(rows), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def main() -> None:
    torch.manual_seed(0)
    digits = load_digits()
    rows = torch.randperm(len(digits.target))
    x, labels = torch.tensor(digits.data / 16).float()[rows], torch.tensor(digits.target)[rows]

    plain = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    layer = tct.nn.TC(FCRELU, parameters={"W": (128, 64), "b": (128,)})
    ours = nn.Sequential(layer, nn.Linear(128, 10))
    with torch.no_grad():  # the same start
        for own, other in zip(ours.parameters(), plain.parameters(), strict=True):
            own.copy_(other)
    compiled = torch.compile(ours, fullgraph=True)
    torch.testing.assert_close(compiled(x), plain(x))

    losses = train(ours, x[:1536], labels[:1536], epochs=10)
    beside = train(plain, x[:1536], labels[:1536], epochs=10)
    torch.testing.assert_close(losses[:10], beside[:10], rtol=1e-3, atol=1e-3)
    right = (ours(x[1536:]).argmax(1) == labels[1536:]).float().mean().item()
    assert losses[-1] < losses[0] / 5
    assert right > 0.9
    print(
        f"loss {losses[0]:.2f} to {losses[-1]:.2f} (nn.Linear: {beside[-1]:.2f}), {right:.1%} right"
    )


if __name__ == "__main__":
    main()
