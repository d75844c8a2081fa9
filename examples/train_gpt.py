"""A small GPT learns a text by its letters: `python -m tcdsl.as_torch FILE`, or PyTorch's own."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from shown import plot, steps

TEXT = "the cat sat on the mat and the dog sat on the log; " * 40
LENGTH, WIDTH, HEADS, LAYERS = 24, 48, 4, 2

letters = sorted(set(TEXT))
codes = torch.tensor([letters.index(c) for c in TEXT])


class Block(nn.Module):
    """Attention to what came before, then two linear maps, each added to its input."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mix = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.mix(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (p.view(batch, length, HEADS, -1).transpose(1, 2) for p in parts)
        scores = q.matmul(k.transpose(2, 3)) / (WIDTH // HEADS) ** 0.5
        later = torch.ones(length, length).triu(1) > 0
        weights = F.softmax(scores.masked_fill(later, float("-inf")), dim=-1)
        seen = weights.matmul(v).transpose(1, 2).reshape(batch, length, WIDTH)
        x = x + self.out(seen)
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class GPT(nn.Module):
    """Letters and places to vectors, blocks, vectors to letters."""

    def __init__(self):
        super().__init__()
        self.letter = nn.Embedding(len(letters), WIDTH)
        self.place = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, len(letters))

    def forward(self, x):
        x = self.letter(x) + self.place(torch.arange(x.size(1)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


torch.manual_seed(0)
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
losses = []
for step in steps(120, "GPT"):
    begins = torch.randint(0, len(TEXT) - LENGTH - 1, (16,)).tolist()
    x = torch.stack([codes[i : i + LENGTH] for i in begins])
    y = torch.stack([codes[i + 1 : i + LENGTH + 1] for i in begins])
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x).view(-1, len(letters)), y.view(-1))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.item())
    if step % 30 == 29:
        print(f"step {step + 1}: loss {loss.item():.3f}")
plot("train_gpt", loss=losses)
assert loss.item() < 0.5

said = codes[:LENGTH]
with torch.no_grad():
    for _ in range(40):
        after = model(said[-LENGTH:].unsqueeze(0))[0, -1]
        said = torch.cat([said, after.argmax().view(1)])
print("".join(letters[i] for i in said.tolist()))
