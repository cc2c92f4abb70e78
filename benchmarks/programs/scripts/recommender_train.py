"""A recommender: 26 tables of embeddings, pairwise products, two MLPs; trained with SGD in fp32."""

import itertools

import torch
from torch import nn

from stepping import changed, device, endless, finish, size, steps

BATCH, TABLES, ROWS, WIDTH = size((2048, 26, 100_000, 64), (16, 4, 100, 8))
if changed("larger-batch"):
    BATCH *= 4
if changed("tf32"):
    torch.set_float32_matmul_precision("high")


def mlp(*widths):
    """Linear layers with ReLU between them."""
    layers = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        sparse = changed("sparse-gradients")
        if changed("one-table"):
            self.table = nn.Embedding(TABLES * ROWS, WIDTH, sparse=sparse)
            self.register_buffer("first", torch.arange(TABLES) * ROWS)
        else:
            self.tables = nn.ModuleList(
                nn.EmbeddingBag(ROWS, WIDTH, mode="sum", sparse=sparse) for _ in range(TABLES)
            )
        self.bottom = mlp(13, 512, 256, WIDTH)
        pairs = (TABLES + 1) * TABLES // 2
        self.top = mlp(WIDTH + pairs, 1024, 512, 256, 1)
        self.register_buffer("pairs", torch.tril_indices(TABLES + 1, TABLES + 1, -1))

    def forward(self, numbers, ids):
        dense = self.bottom(numbers)
        if changed("one-table"):
            features = torch.cat([dense[:, None], self.table(ids + self.first)], 1)
        else:
            found = [table(ids[:, i : i + 1]) for i, table in enumerate(self.tables)]
            features = torch.stack([dense, *found], 1)
        products = features @ features.transpose(1, 2)
        crossed = products[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([dense, crossed], 1)).squeeze(1)


def batches():
    """Numbers, ids and clicks on the host; a few ids are much more frequent."""
    found = []
    for _ in range(16):
        numbers = torch.rand(BATCH, 13).log1p()
        ids = (torch.rand(BATCH, TABLES) ** 4 * ROWS).long()
        clicks = (torch.rand(BATCH) < 0.1).float()
        found.append((numbers, ids, clicks))
    if changed("pinned") and torch.cuda.is_available():
        found = [tuple(each.pin_memory() for each in batch) for batch in found]
    return found


def main():
    torch.manual_seed(0)
    model = Recommender().to(device())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forward = torch.compile(model) if changed("compile") else model
    criterion = nn.BCEWithLogitsLoss()
    total = 0.0
    for _, batch in zip(steps(size(60, 6), BATCH), endless(batches())):
        numbers, ids, clicks = (each.to(device(), non_blocking=changed("pinned")) for each in batch)
        with torch.autocast(device(), torch.bfloat16, enabled=changed("bf16")):
            loss = criterion(forward(numbers, ids), clicks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not changed("no-item"):
            total += loss.item()
    finish(loss.item())


if __name__ == "__main__":
    main()
