"""A training script with mistakes that people make, and a switch that puts each right.

    python case_studies/advice/training.py --steps 20
    python case_studies/advice/training.py --steps 20 --fix tf32,pin,sync,fused

A small transformer learns to classify pictures (of noise: only sizes matter) from a data loader, in
32-bit floats. It multiplies without tensor cores, copies from memory that is not pinned, reads
numbers of the device at each step for its log, and has an optimizer written tensor by tensor.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

import tileprof


@dataclass(frozen=True)
class Size:
    layers: int
    heads: int
    width: int
    picture: int
    patch: int
    batch: int
    pictures: int
    classes: int = 1000


SIZES = {
    "tiny": Size(layers=2, heads=2, width=32, picture=24, patch=12, batch=4, pictures=16),
    "small": Size(layers=8, heads=8, width=512, picture=96, patch=12, batch=512, pictures=4096),
}


class Model(nn.Module):
    """A transformer over patches of pictures."""

    def __init__(self, size: Size):
        super().__init__()
        self.patch = size.patch
        places = (size.picture // size.patch) ** 2
        self.bring_in = nn.Linear(3 * size.patch**2, size.width)
        self.places = nn.Parameter(torch.randn(places, size.width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            size.width, size.heads, 4 * size.width, dropout=0.0, activation="gelu",
            batch_first=True, norm_first=True,
        )  # fmt: skip
        self.layers = nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False)
        self.head = nn.Linear(size.width, size.classes)

    def forward(self, pictures):
        """Scores of the classes."""
        x = pictures.unflatten(3, (-1, self.patch)).unflatten(2, (-1, self.patch))
        patches = x.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
        x = self.layers(self.bring_in(patches) + self.places)
        return self.head(x.mean(1))


class Pictures(Dataset):
    """Noise with labels, held in memory; a batch is taken at once."""

    def __init__(self, size: Size):
        generator = torch.Generator().manual_seed(0)
        extents = (size.pictures, 3, size.picture, size.picture)
        self.pictures = torch.randn(extents, generator=generator)
        self.labels = torch.randint(0, size.classes, (size.pictures,), generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, which):
        return self.pictures[which], self.labels[which]


class AdamW(torch.optim.Optimizer):
    """As the paper has it, tensor by tensor."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "decay": weight_decay})
        self.turn = 0

    @torch.no_grad()
    def step(self):
        self.turn += 1
        for group in self.param_groups:
            one, two = group["betas"]
            for p in group["params"]:
                held = self.state[p]
                if not held:
                    held["mean"], held["square"] = torch.zeros_like(p), torch.zeros_like(p)
                held["mean"].mul_(one).add_(p.grad, alpha=1 - one)
                held["square"].mul_(two).addcmul_(p.grad, p.grad, value=1 - two)
                p.mul_(1 - group["lr"] * group["decay"])
                root = (held["square"] / (1 - two**self.turn)).sqrt_().add_(group["eps"])
                p.addcdiv_(held["mean"], root, value=-group["lr"] / (1 - one**self.turn))


# -- each mistake, and how it is put right


def multiply_in_full():
    torch.set_float32_matmul_precision("highest")


def multiply_in_tf32():
    torch.set_float32_matmul_precision("high")


def batches(data, size, device):
    chosen = BatchSampler(RandomSampler(data), size.batch, drop_last=True)
    loader = DataLoader(data, sampler=chosen, batch_size=None)
    while True:
        for pictures, labels in loader:
            yield pictures.to(device), labels.to(device)


def batches_pinned(data, size, device):
    chosen = BatchSampler(RandomSampler(data), size.batch, drop_last=True)
    loader = DataLoader(data, sampler=chosen, batch_size=None, pin_memory=device != "cpu")
    while True:
        for pictures, labels in loader:
            yield pictures.to(device, non_blocking=True), labels.to(device, non_blocking=True)


def log_step(log, loss, scores, labels, model):
    hits = (scores.argmax(1) == labels).float().mean().item()
    norms = [p.grad.norm().item() for p in model.parameters()]
    log.append((loss.item(), hits, math.hypot(*norms)))


def log_step_unread(log, loss, scores, labels, model):
    hits = (scores.argmax(1) == labels).float().mean()
    norms = torch.stack([p.grad.norm() for p in model.parameters()])
    log.append((loss.detach(), hits, norms.norm()))


def optimizer_of(model):
    return AdamW(model.parameters(), lr=3e-4)


def optimizer_of_fused(model):
    return torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)


CHANGES: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "tf32": (multiply_in_full, multiply_in_tf32),
    "pin": (batches, batches_pinned),
    "sync": (log_step, log_step_unread),
    "fused": (optimizer_of, optimizer_of_fused),
}
"""By fix, the function as it was written and the one that takes its place."""


class Training:
    """A model that learns, with some of the mistakes put right."""

    def __init__(self, size: Size, device: str, fixes: Collection[str]):
        torch.manual_seed(0)
        self.chosen = {name: pair[name in fixes] for name, pair in CHANGES.items()}
        self.model = Model(size).to(device)
        self.optimizer = self.chosen["fused"](self.model)
        self.supply: Iterator[Any] = self.chosen["pin"](Pictures(size), size, device)
        self.log: list[tuple[Any, ...]] = []

    def run(self, steps: int) -> None:
        """Some more steps."""
        self.chosen["tf32"]()
        for _ in range(steps):
            with tileprof.scope("step"):
                self._step()

    def _step(self):
        with tileprof.scope("data"):
            pictures, labels = next(self.supply)
        with tileprof.scope("forward"):
            scores = self.model(pictures)
            loss = F.cross_entropy(scores, labels)
        with tileprof.scope("backward"):
            loss.backward()
        with tileprof.scope("log"):
            self.chosen["sync"](self.log, loss, scores, labels, self.model)
        with tileprof.scope("update"):
            self.optimizer.step()
            self.optimizer.zero_grad()


def fixes_of(text: str) -> tuple[str, ...]:
    """`tf32,pin` as names."""
    names = tuple(name for name in text.split(",") if name)
    unknown = [name for name in names if name not in CHANGES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no fix {unknown[0]!r}; there are {', '.join(CHANGES)}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--size", choices=SIZES)
    parser.add_argument("--fix", type=fixes_of, default=(), help=", ".join(CHANGES))
    args = parser.parse_args()
    size = args.size or ("small" if args.device == "cuda" else "tiny")
    training = Training(SIZES[size], args.device, args.fix)
    begin = time.perf_counter()
    training.run(args.steps)
    loss, hits, norm = map(float, training.log[-1])
    took = (time.perf_counter() - begin) / args.steps * 1e3
    assert math.isfinite(loss)
    print(f"{args.steps} steps: loss {loss:.3f}, right {hits:.1%}, norm {norm:.2f}, {took:.1f} ms")


if __name__ == "__main__":
    main()
