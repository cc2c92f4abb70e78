"""A training step as people write it: a small GPT on characters, and where its time goes.

    tileprof run case_studies/train_gpt.py --steps 20
    tileprof run case_studies/train_gpt.py --steps 20 --checkpoint --compile

On a GPU 124 M parameters in bf16, on the CPU a model that fits there.  The text is that of Python's
own standard library.  Nothing in it is for the profiler's sake but the four scopes of a step.
"""

import argparse
import math
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

import tileprof


@dataclass(frozen=True)
class Size:
    blocks: int
    heads: int
    width: int
    context: int
    batch: int


SIZES = {
    "tiny": Size(blocks=4, heads=4, width=128, context=64, batch=8),
    "small": Size(blocks=12, heads=12, width=768, context=1024, batch=16),
}


class Attention(nn.Module):
    def __init__(self, size: Size):
        super().__init__()
        self.heads = size.heads
        self.qkv = nn.Linear(size.width, 3 * size.width, bias=False)
        self.out = nn.Linear(size.width, size.width, bias=False)

    def forward(self, x):
        batch, steps, width = x.shape
        parts = self.qkv(x).view(batch, steps, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, steps, width))


class Block(nn.Module):
    def __init__(self, size: Size):
        super().__init__()
        self.attention_norm = nn.LayerNorm(size.width)
        self.attention = Attention(size)
        self.mlp_norm = nn.LayerNorm(size.width)
        self.up = nn.Linear(size.width, 4 * size.width, bias=False)
        self.down = nn.Linear(4 * size.width, size.width, bias=False)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))

    def mlp(self, x):
        return self.down(F.gelu(self.up(x)))


class GPT(nn.Module):
    """A decoder whose last layer is the transpose of its first."""

    def __init__(self, size: Size, vocabulary: int, recompute: bool):
        super().__init__()
        self.recompute = recompute
        self.tokens = nn.Embedding(vocabulary, size.width)
        self.places = nn.Embedding(size.context, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.blocks))
        self.norm = nn.LayerNorm(size.width)
        self.apply(self._begin)
        for block in self.blocks:
            for last in (block.attention.out, block.down):
                nn.init.normal_(last.weight, std=0.02 / math.sqrt(2 * size.blocks))

    @staticmethod
    def _begin(module):
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens, targets):
        """The mean loss in nats a character, of (batch, context) characters."""
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Characters(Dataset):
    """Pieces of a text, each with the same piece one character on."""

    def __init__(self, text: str, context: int):
        known = sorted(set(text))
        numbers = {character: number for number, character in enumerate(known)}
        self.vocabulary = len(known)
        self.data = torch.tensor([numbers[character] for character in text])
        self.context = context

    def __len__(self):
        return len(self.data) - self.context

    def __getitem__(self, start):
        piece = self.data[start : start + self.context + 1]
        return piece[:-1], piece[1:]


def library_text(files: int = 12) -> str:
    """Sources of Python's standard library, ASCII alone."""
    folder = Path(argparse.__file__).parent
    texts = [path.read_text(errors="ignore") for path in sorted(folder.glob("*.py"))[:files]]
    return "".join(texts).encode("ascii", "ignore").decode()


def batches(data: Characters, size: Size, workers: int, pinned: bool) -> Iterator:
    """Random batches without end."""
    loader = DataLoader(
        data, size.batch, shuffle=True, num_workers=workers, pin_memory=pinned, drop_last=True
    )
    while True:
        yield from loader


def optimizer_of(model, device: str):
    """AdamW that decays matrices and leaves vectors alone."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), fused=device == "cuda")


def train(args) -> list[float]:
    """Losses of all steps."""
    torch.manual_seed(0)
    on_gpu = args.device == "cuda"
    size = SIZES[args.size or ("small" if on_gpu else "tiny")]
    data = Characters(library_text(), size.context)
    model = GPT(size, data.vocabulary, args.checkpoint).to(args.device)
    optimizer = optimizer_of(model, args.device)
    # Linear for a few steps, then the half wave down to a tenth.
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: rate(n, args.steps))
    run = torch.compile(model) if args.compile else model
    autocast = torch.autocast("cuda", torch.bfloat16) if on_gpu else nullcontext()
    supply = batches(data, size, args.workers, on_gpu)
    losses = []
    for _ in range(args.steps):
        start = time.perf_counter()
        with tileprof.scope("step"):
            with tileprof.scope("data"):
                tokens, targets = (part.to(args.device, non_blocking=True) for part in next(supply))
            with tileprof.scope("forward"), autocast:
                loss = run(tokens, targets)
            with tileprof.scope("backward"):
                loss.backward()
            with tileprof.scope("update"):
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(loss.item())
        took = (time.perf_counter() - start) * 1e3
        print(f"step {len(losses)}: loss {losses[-1]:.3f}, norm {norm:.2f}, {took:.0f} ms")
    return losses


def rate(step: int, steps: int, warm: int = 5) -> float:
    """Share of the full learning rate."""
    if step < warm:
        return (step + 1) / warm
    return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--size", choices=SIZES)
    parser.add_argument("--workers", type=int, default=0, help="processes that load data")
    parser.add_argument("--checkpoint", action="store_true", help="recompute blocks in backward")
    parser.add_argument("--compile", action="store_true")
    losses = train(parser.parse_args())
    assert all(math.isfinite(loss) for loss in losses)


if __name__ == "__main__":
    main()
