"""In PyTorch: the blocks of a ResNet-18-like model replaced; weights, names and results stay."""

import time

import torch
from torch import nn

import tcdsl.torch as tct

# Convolution, batch norm, (sum,) relu: a text each; training gives mean and variance as well.
BLOCKS = """
def conv(float(N,{C},H,W) I, float({F},{C},3,3) K) -> (O) {
  O(n, f, y, x) +=! pad(I(n, c, {S} * y + i - 1, {S} * x + j - 1), 0) * K(f, c, i, j)
      where y in 0:(H - 1) / {S} + 1, x in 0:(W - 1) / {S} + 1
}
def train(float(N,{C},H,W) I, float({F},{C},3,3) K, float({F}) gamma,
          float({F}) beta) -> (Y, m, v) {
  O = conv(I, K)
  m(f) +=! O(n, f, y, x) / (O.0 * O.2 * O.3)
  v(f) +=! (O(n, f, y, x) - m(f)) * (O(n, f, y, x) - m(f)) / (O.0 * O.2 * O.3)
  Y(n, f, y, x) = relu((O(n, f, y, x) - m(f)) * (gamma(f) * rsqrt(v(f) + 1e-5)) + beta(f))
}
def train_sum(float(N,{C},H,W) I, float({F},{C},3,3) K, float({F}) gamma, float({F}) beta,
              float(N,{F},H,W) skip) -> (Y, m, v) {
  O = conv(I, K)
  m(f) +=! O(n, f, y, x) / (O.0 * O.2 * O.3)
  v(f) +=! (O(n, f, y, x) - m(f)) * (O(n, f, y, x) - m(f)) / (O.0 * O.2 * O.3)
  Y(n, f, y, x) = relu((O(n, f, y, x) - m(f)) * (gamma(f) * rsqrt(v(f) + 1e-5)) + beta(f)
                       + skip(n, f, y, x))
}
def use(float(N,{C},H,W) I, float({F},{C},3,3) K, float({F}) gamma, float({F}) beta,
        float({F}) m, float({F}) v) -> (Y) {
  O = conv(I, K)
  Y(n, f, y, x) = relu((O(n, f, y, x) - m(f)) * (gamma(f) * rsqrt(v(f) + 1e-5)) + beta(f))
}
def use_sum(float(N,{C},H,W) I, float({F},{C},3,3) K, float({F}) gamma, float({F}) beta,
            float({F}) m, float({F}) v, float(N,{F},H,W) skip) -> (Y) {
  O = conv(I, K)
  Y(n, f, y, x) = relu((O(n, f, y, x) - m(f)) * (gamma(f) * rsqrt(v(f) + 1e-5)) + beta(f)
                       + skip(n, f, y, x))
}"""


class ConvNormRelu(nn.Module):
    """A convolution, batch norm, and relu of the sum with `skip`, by torch."""

    def __init__(self, conv: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        self.conv, self.norm = conv, norm

    def forward(self, x: torch.Tensor, skip: torch.Tensor | None = None) -> torch.Tensor:
        y = self.norm(self.conv(x))
        return torch.relu(y if skip is None else y + skip)


class Fused(ConvNormRelu):
    """The same modules and parameters, run by one text."""

    def __init__(self, conv: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
        super().__init__(conv, norm)
        # Sizes that a layer knows stand in its text: layers of other sizes have other kernels.
        sizes = {"C": conv.in_channels, "F": conv.out_channels, "S": conv.stride[0]}
        self.kernels = tct.define_all(BLOCKS, constants=sizes)

    def forward(self, x: torch.Tensor, skip: torch.Tensor | None = None) -> torch.Tensor:
        norm, more = self.norm, [] if skip is None else [skip]
        given = x, self.conv.weight, norm.weight, norm.bias
        if not self.training:
            kernel = self.kernels.use_sum if more else self.kernels.use
            return kernel(*given, norm.running_mean, norm.running_var, *more)
        y, mean, variance = (self.kernels.train_sum if more else self.kernels.train)(*given, *more)
        count = y.numel() / y.shape[1]
        with torch.no_grad():
            norm.num_batches_tracked += 1
            norm.running_mean.lerp_(mean, norm.momentum)
            norm.running_var.lerp_(variance * (count / (count - 1)), norm.momentum)
        return y


def conv_norm_relu(inputs: int, outputs: int, stride: int = 1) -> ConvNormRelu:
    conv = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
    return ConvNormRelu(conv, nn.BatchNorm2d(outputs))


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = conv_norm_relu(inputs, outputs, stride)
        self.second = conv_norm_relu(outputs, outputs)
        self.skip = nn.Sequential()
        if stride > 1:
            conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.skip = nn.Sequential(conv, nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x), self.skip(x))


def resnet(width: int = 8, classes: int = 10) -> nn.Sequential:
    """Return 17 convolutions of 3x3 in eight blocks, and a linear layer."""
    layers: list[nn.Module] = [conv_norm_relu(3, width)]
    for stage in range(4):
        inputs = width * 2 ** max(stage - 1, 0)
        layers += [Block(inputs, width * 2**stage, 1 + (stage > 0))]
        layers += [Block(width * 2**stage, width * 2**stage, 1)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, classes)]
    return nn.Sequential(*layers)


def fuse(model: nn.Module) -> nn.Module:
    """Replace each ConvNormRelu of a model by Fused; its state dict stays."""
    for name, child in model.named_children():
        if type(child) is ConvNormRelu:
            setattr(model, name, Fused(child.conv, child.norm))
        else:
            fuse(child)
    return model


def epoch(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> tuple[float, float]:
    """Train on batches of 16; return the last loss, and the seconds it took."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    start = time.perf_counter()
    for x, wanted in zip(images.split(16), labels.split(16), strict=True):
        loss = nn.functional.cross_entropy(model(x), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item(), time.perf_counter() - start


def main() -> None:
    torch.manual_seed(0)
    plain, ours = resnet(), fuse(resnet())
    ours.load_state_dict(plain.state_dict())
    labels = torch.randint(10, (64,))
    images = torch.randn(64, 3, 32, 32) + torch.randn(10, 3, 1, 1)[labels]

    def gradient(model: nn.Module) -> torch.Tensor:
        loss = nn.functional.cross_entropy(model(images[:16]), labels[:16])
        found = torch.autograd.grad(loss, [*model.parameters()])
        return torch.cat([g.flatten() for g in found])

    for model in (ours, torch.compile(ours, fullgraph=True)):
        # Where the sum before a relu is about 0, another order of adding gives it another sign.
        wanted = gradient(plain)
        assert (gradient(model) - wanted).norm() < 0.02 * wanted.norm()
        torch.testing.assert_close(ours.state_dict(), plain.state_dict(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours.eval()(images), plain.eval()(images), rtol=1e-3, atol=1e-3)

    ours.train(), plain.train()
    found = [epoch(ours, images, labels) for _ in range(3)]
    beside = [epoch(plain, images, labels) for _ in range(3)]
    assert found[-1][0] < found[0][0]
    print(f"loss {found[0][0]:.2f} to {found[-1][0]:.2f}, by torch alone to {beside[-1][0]:.2f}")
    seconds = [min(s for _, s in runs) for runs in (found, beside)]
    print(f"an epoch takes {seconds[0]:.2f} s, by torch alone {seconds[1]:.2f} s")


if __name__ == "__main__":
    main()
