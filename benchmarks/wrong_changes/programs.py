"""Training programs and a simulation of a few steps, as texts that mutations are applied to.

Each is a script as a user would write it, with the modules that people use most: linear layers and
AdamW; convolutions, batch normalisation, momentum and a scheduler; attention, layer normalisation,
clipped gradients; embeddings; an LSTM; NumPy alone.  They compute in PyTorch's default type, so
that the same text runs in 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

STEPS = 12
"""Steps of each program; `tileprof try` compares the first five."""


@dataclass(frozen=True)
class Program:
    """A script, and the function whose results are compared if it does not train."""

    name: str
    text: str
    compared: str = ""


_CLASSIFIER = """
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(20, 48)
        self.second = nn.Linear(48, 48)
        self.norm = nn.LayerNorm(48, eps=1e-05)
        self.last = nn.Linear(48, 5)

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        hidden = hidden + 0.5 * torch.tanh(self.norm(self.second(hidden)))
        return self.last(hidden)


def batch(step):
    draw = torch.Generator().manual_seed(100 + step)
    x = torch.randn(32, 20, generator=draw, dtype=torch.float64).to(torch.get_default_dtype())
    kinds = (3.0 * x[:, 0] + x[:, 1] * x[:, 2] - 0.5).clamp(-2.0, 2.0)
    return (x - x.mean(dim=0)) / x.std(dim=0), (kinds.round() + 2).long()


def main():
    torch.manual_seed(0)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    for step in range(STEPS):
        x, kinds = batch(step)
        optimizer.zero_grad()
        scores = model(x)
        loss = nn.functional.cross_entropy(scores, kinds, label_smoothing=0.1)
        loss = loss + 0.01 * scores.square().mean()
        loss.backward()
        optimizer.step()


main()
"""

_CONVOLUTION = """
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels, momentum=0.1)

    def forward(self, x):
        return x + nn.functional.gelu(self.norm(self.conv(x)))


def network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), Residual(8), nn.MaxPool2d(2), Residual(8), nn.Flatten(),
        nn.LazyLinear(4)
    )


def images(step):
    draw = torch.Generator().manual_seed(step)
    pixels = torch.rand(8, 3, 16, 16, generator=draw, dtype=torch.float64)
    wanted = torch.stack([pixels.mean(dim=(1, 2, 3)), pixels[:, 0, 4:12].amax(dim=(1, 2)),
                          pixels[:, 1, :, 8:].std(dim=(1, 2)), pixels[:, 2, 3, 3]], dim=1)
    return (2.0 * pixels - 1.0).to(torch.get_default_dtype()), wanted.to(torch.get_default_dtype())


def main():
    torch.manual_seed(1)
    model = network()
    model(images(0)[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    for step in range(STEPS):
        x, wanted = images(step)
        loss = nn.functional.mse_loss(model(x), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()


main()
"""

_TRANSFORMER = """
import math

import torch
from torch import nn

WORDS, WIDTH, HEADS, LENGTH = 40, 32, 4, 24


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        held = self.inputs(x).reshape(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = held.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        hidden = torch.ones(length, length, dtype=torch.bool).triu(diagonal=1)
        weights = scores.masked_fill(hidden, -math.inf).softmax(dim=-1)
        return self.output((weights @ v).transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.narrow(nn.functional.silu(self.wide(self.after(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, words):
        x = self.words(words) * 0.2 + self.places[: words.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.words.weight.T / 4.0


def main():
    torch.manual_seed(2)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98), eps=1e-9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 4.0))
    draw = torch.Generator().manual_seed(7)
    text = torch.randint(0, WORDS, (4 * STEPS, LENGTH + 1), generator=draw)
    for step in range(STEPS):
        words = text[4 * step : 4 * step + 4]
        scores = model(words[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()


main()
"""

_RECOMMENDER = """
import torch
from torch import nn


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(50, 16)
        self.items = nn.EmbeddingBag(80, 16, mode="mean")
        self.bias = nn.Parameter(torch.zeros(1))
        self.layers = nn.Sequential(nn.Linear(48, 24), nn.LeakyReLU(0.1), nn.Linear(24, 1))

    def forward(self, users, items):
        user, item = self.users(users), self.items(items)
        both = torch.cat([user, item, user * item], dim=1)
        return self.layers(both).squeeze(1) + (user * item).sum(dim=1) + self.bias


def sample(step):
    draw = torch.Generator().manual_seed(step)
    users = torch.randint(0, 50, (64,), generator=draw)
    items = torch.randint(0, 80, (64, 5), generator=draw)
    wanted = torch.sin(0.1 * users * items[:, 0]) + 0.3 * (items[:, 1] % 7) / 7.0
    return users, items, wanted.to(torch.get_default_dtype())


def main():
    torch.manual_seed(3)
    model = Recommender()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, eps=1e-08)
    for step in range(STEPS):
        users, items, wanted = sample(step)
        found = model(users, items)
        errors = nn.functional.huber_loss(found, wanted, delta=0.7, reduction="none")
        weights = 1.0 / (1.0 + 0.05 * items[:, 0])
        loss = (errors * weights).sum() / weights.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
"""

_RECURRENT = """
import torch
from torch import nn


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory = nn.LSTM(3, 24, batch_first=True)
        self.gate = nn.Linear(24, 24)
        self.output = nn.Linear(24, 1)

    def forward(self, x):
        held, (last, _) = self.memory(x)
        kept = torch.sigmoid(self.gate(last[-1])) * held.mean(dim=1)
        return self.output(nn.functional.softplus(kept))


def series(step):
    time = torch.arange(0.0, 20.0, 0.5, dtype=torch.float64) + 0.3 * step
    phase = torch.arange(16, dtype=torch.float64).unsqueeze(1)
    waves = torch.sin(time + phase) + 0.2 * torch.cos(3.0 * time * (1.0 + phase / 16.0))
    steps = torch.stack([waves, waves.cumsum(dim=1) / 10.0, waves.roll(1, dims=1)], dim=2)
    return (each.to(torch.get_default_dtype()) for each in (steps[:, :-1], waves[:, -1:]))


def main():
    torch.manual_seed(4)
    model = Forecast()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3, alpha=0.95, centered=True)
    total = torch.zeros(())
    for step in range(STEPS):
        x, wanted = series(step)
        error = model(x) - wanted
        penalty = sum(p.square().sum() for p in model.parameters())
        loss = error.abs().mean() + 0.5 * error.square().mean() + 1e-3 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()


main()
"""

_SIMULATION = """
import numpy as np

SIZE, HEAT, COOLING = 24, 0.15, 0.02


def start():
    grid = np.zeros((SIZE, SIZE))
    grid[8:16, 6:12] = 1.0
    grid[4, 4:20] = np.linspace(0.5, 2.0, 16)
    return grid


def stepped(grid, step):
    wide = np.pad(grid, 1, mode="edge")
    around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    source = 0.1 * np.sin(0.7 * step) * np.exp(-((np.arange(SIZE) - 11.5) ** 2) / 30.0)
    grid = grid + HEAT * (around - 4.0 * grid) - COOLING * grid**3 + source[:, None]
    return np.clip(grid, -3.0, 3.0)


def main():
    grid = start()
    for step in range(STEPS):
        grid = stepped(grid, step)
    return grid


main()
"""

PROGRAMS = tuple(
    Program(name, text.replace("STEPS", str(STEPS)).lstrip(), compared)
    for name, text, compared in (
        ("classifier", _CLASSIFIER, ""),
        ("convolution", _CONVOLUTION, ""),
        ("transformer", _TRANSFORMER, ""),
        ("recommender", _RECOMMENDER, ""),
        ("recurrent", _RECURRENT, ""),
        ("simulation", _SIMULATION, "stepped"),
    )
)
