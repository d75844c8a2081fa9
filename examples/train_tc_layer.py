"""Layers whose forward is a text, tuned, in a model that trains: `python -m tcdsl.as_torch FILE`.

With PyTorch itself the same file runs unchanged: `tcdsl.torch` is what makes layers there.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from shown import plot, steps
from sklearn.datasets import load_digits

import tcdsl.torch as tct

# How near a point is to each of N centers: no tensor of (B, N, D) differences is ever made.
NEAR = """
def near(float(B, D) x, float(N, D) center, float(N) width) -> (y) {
  apart(b, n) +=! (x(b, d) - center(n, d)) * (x(b, d) - center(n, d))
  y(b, n) = exp(-width(n) * width(n) * apart(b, n))
}"""
# Steps in a forward pass, that of the identity on the way back: the gradient is written by hand.
ROUND = """
def rounded(float(B, N) x) -> (y) { y(b, n) = rint(16 * x(b, n)) / 16 }
def straight(float(B, N) x, float(B, N) d_y) -> (d_x) { d_x(b, n) = d_y(b, n) }"""

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seconds", type=float, default=5.0, help="of tuning")
parser.add_argument("--trials", type=int, help="of tuning, for each kernel")
given = parser.parse_args()

torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.images / 16, dtype=torch.float32).reshape(-1, 64)
labels = torch.tensor(digits.target)
order = torch.randperm(len(images))
train, test = order[:1500], order[1500:]

centers = images[train[:100]].clone()
near = tct.nn.TC(NEAR, parameters={"center": centers, "width": (100,)}, init={"width": 0.5})
model = nn.Sequential(near, tct.nn.TC(ROUND, backward="straight"), nn.Linear(100, 10))
print(model)
budget = {"seconds": given.seconds, "trials": given.trials}
print(tct.autotune(model, images[:50], **budget, quiet=True, again=False))  # once on a machine

optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
losses = []
for epoch in steps(12, "layers of text"):
    for part in train[torch.randperm(len(train))].split(50):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[part]), labels[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if epoch % 4 == 3:
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")
with torch.no_grad():
    right = (model(images[test]).argmax(1) == labels[test]).float().mean().item()
print(f"right {right:.3f}")
plot("train_tc_layer", loss=losses)
assert right > 0.9
