"""Handwritten digits by a small network, written for PyTorch: `python -m tcdsl.as_torch FILE`.

The same file runs with PyTorch itself: `python examples/train_digits.py`.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from shown import plot, steps
from sklearn.datasets import load_digits
from torch import optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.images / 16, dtype=torch.float32).reshape(-1, 64)
labels = torch.tensor(digits.target)
train = TensorDataset(images[:1400], labels[:1400])

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
optimizer = optim.Adam(model.parameters(), lr=3e-3)
losses = []
for epoch in steps(8, "digits"):
    model.train()
    total = 0.0
    for x, y in DataLoader(train, batch_size=50, shuffle=True):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(x)
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        right = (model(images[1400:]).argmax(1) == labels[1400:]).float().mean().item()
    print(f"epoch {epoch}: loss {total / 1400:.3f}, right {right:.3f}")
plot("train_digits", loss=losses)
assert right > 0.86
