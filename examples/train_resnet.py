"""ResNet-18 for images of 32x32, written for PyTorch: `python -m tcdsl.as_torch FILE`.

The images are made: a grating of one of ten directions and waves under noise, of any color.
"""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from shown import plot, steps

CLASSES = 10


class Block(nn.Module):
    """Two convolutions with norms; their input is added, by a third one where shapes differ."""

    def __init__(self, channels, filters, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(filters)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != filters:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, filters, 1, stride, bias=False), nn.BatchNorm2d(filters)
            )

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    """A convolution, four stages of two blocks, an average over the image, a linear map."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        blocks, channels = [], width
        for stage in range(4):
            for place in range(2):
                filters = width * 2**stage
                stride = 2 if stage > 0 and place == 0 else 1
                blocks.append(Block(channels, filters, stride))
                channels = filters
        self.blocks = nn.Sequential(*blocks)
        self.linear = nn.Linear(channels, CLASSES)

    def forward(self, x):
        x = self.blocks(F.relu(self.norm(self.conv(x))))
        return self.linear(F.adaptive_avg_pool2d(x, 1).flatten(1))


def batch(count):
    """Return images (count, 3, 32, 32) and their classes."""
    labels = torch.randint(0, CLASSES, (count,))
    angle = (labels.float() * math.pi / CLASSES).view(-1, 1, 1)
    waves = (3 + labels % 3).float().view(-1, 1, 1)
    place = torch.linspace(0, 1, 32)
    across = torch.cos(angle) * place.view(1, 1, 32) + torch.sin(angle) * place.view(1, 32, 1)
    phase = 2 * math.pi * torch.rand(count, 1, 1)
    grating = torch.sin(2 * math.pi * waves * across + phase).unsqueeze(1)
    color = 0.3 + torch.rand(count, 3, 1, 1)
    return grating * color + 0.3 * torch.randn(count, 3, 32, 32), labels


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--width", type=int, default=64, help="filters of the first stage")
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--batch", type=int, default=32)
given = parser.parse_args()

torch.manual_seed(0)
model = ResNet18(given.width)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, given.steps)
losses = []
for step in steps(given.steps, "ResNet-18"):
    images, labels = batch(given.batch)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    schedule.step()
    losses.append(loss.item())
    if step % 10 == 9:
        print(f"step {step + 1}: loss {loss.item():.3f}")

model.eval()
with torch.no_grad():
    images, labels = batch(200)
    right = (model(images).argmax(1) == labels).float().mean().item()
print(f"{sum(p.numel() for p in model.parameters())} parameters, right {right:.3f}")
plot("train_resnet", loss=losses)
assert right > 0.9
