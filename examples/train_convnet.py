"""Handwritten digits by convolutions, written for PyTorch: `python -m tcdsl.as_torch FILE`."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from shown import plot, steps
from sklearn.datasets import load_digits


class Net(nn.Module):
    """Two convolutions, batch norms and pools, then a linear map."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(32)
        self.linear = nn.Linear(32 * 2 * 2, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        return self.linear(x.view(x.size(0), -1))


torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
labels = torch.tensor(digits.target)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
losses = []
for epoch in steps(4, "convnet"):
    model.train()
    order = torch.randperm(1400)
    for part in order.split(50):
        optimizer.zero_grad()
        loss = F.nll_loss(F.log_softmax(model(images[part]), 1), labels[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        right = (model(images[1400:]).argmax(1) == labels[1400:]).float().mean().item()
    print(f"epoch {epoch}: loss {loss.item():.3f}, right {right:.3f}")
plot("train_convnet", loss=losses)
assert right > 0.92
