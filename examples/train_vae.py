"""A variational autoencoder of handwritten digits, for PyTorch: `python -m tcdsl.as_torch FILE`."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from shown import plot, steps
from sklearn.datasets import load_digits

WIDTH, CODE = 128, 8


class VAE(nn.Module):
    """An image to a normal distribution of codes, a code to an image."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2 * CODE))
        self.decoder = nn.Sequential(nn.Linear(CODE, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 64))

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        code = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        return self.decoder(code), mean, log_variance


def bound(x, logits, mean, log_variance):
    """Return the negative evidence lower bound of an image, in nats."""
    of_pixels = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    of_codes = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
    return (of_pixels + of_codes) / len(x)


torch.manual_seed(0)
images = torch.tensor(load_digits().images / 16, dtype=torch.float32).reshape(-1, 64)
train, test = images[:1500], images[1500:]
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
losses = []
for epoch in steps(25, "VAE"):
    for part in torch.randperm(len(train)).split(50):
        optimizer.zero_grad()
        loss = bound(train[part], *model(train[part]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1}: {loss.item():.2f} nats")

with torch.no_grad():
    nats = bound(test, *model(test)).item()
    pixels = train.mean(0).clamp(1e-3, 1 - 1e-3)
    blank = bound(test, torch.log(pixels / (1 - pixels)).expand_as(test), *torch.zeros(2, 1)).item()
    drawn = torch.sigmoid(model.decoder(torch.randn(12, CODE))).view(-1, 8, 8)
print(f"images that it has not seen: {nats:.2f} nats, by their mean alone {blank:.2f}")
plot("train_vae", images=drawn.tolist(), nats=losses)
assert nats < 0.97 * blank
