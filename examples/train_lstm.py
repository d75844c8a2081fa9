"""An LSTM learns which letter comes next, written for PyTorch: `python -m tcdsl.as_torch FILE`."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from shown import plot, steps

TEXT = "to be or not to be that is the question " * 30
letters = sorted(set(TEXT))
codes = torch.tensor([letters.index(c) for c in TEXT])


class Model(nn.Module):
    """Letters to vectors, an LSTM, vectors to letters."""

    def __init__(self):
        super().__init__()
        self.letter = nn.Embedding(len(letters), 16)
        self.lstm = nn.LSTM(16, 64)
        self.head = nn.Linear(64, len(letters))

    def forward(self, x, state=None):
        y, state = self.lstm(self.letter(x), state)
        return self.head(y), state


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3)
losses = []
for step in steps(100, "LSTM"):
    begins = torch.randint(0, len(TEXT) - 33, (8,)).tolist()
    x = torch.stack([codes[i : i + 32] for i in begins], 1)
    y = torch.stack([codes[i + 1 : i + 33] for i in begins], 1)
    optimizer.zero_grad()
    logits, _ = model(x)
    loss = F.cross_entropy(logits.view(-1, len(letters)), y.reshape(-1))
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if step % 25 == 24:
        print(f"step {step + 1}: loss {loss.item():.3f}")
plot("train_lstm", loss=losses)
assert loss.item() < 0.7
