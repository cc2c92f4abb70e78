"""The program of docs/try.md: a network of small layers, trained on numbers made on the way.

`tileprof try --seconds 75 --ledger benchmarks/results/try_case.jsonl benchmarks/try_case.py` wrote
the ledger that the page shows.
"""

import math

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

WIDTH, LAYERS, BATCH = 64, 24, 32


class Waves(Dataset[tuple[Tensor, Tensor]]):
    """Sums of waves, each made when it is asked for."""

    def __len__(self) -> int:
        """Return how many there are."""
        return 100_000

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Return the values of one, and its frequency."""
        frequency = 1 + index % 97 / 97
        values = [
            math.sin(frequency * at) + 0.5 * math.sin(3 * frequency * at) for at in range(4 * WIDTH)
        ]
        return torch.tensor(values[::4]), torch.tensor([frequency])


class Block(nn.Module):
    """One layer with its normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, width) from (batch, width)."""
        return x + activate(self.linear(self.norm(x)))


def activate(x: Tensor) -> Tensor:
    """Return GELU, written out."""
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def main() -> None:
    """Train."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*(Block() for _ in range(LAYERS)), nn.Linear(WIDTH, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step, (values, wanted) in enumerate(DataLoader(Waves(), BATCH)):
        loss = ((model(values) - wanted) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
