"""A small GPT whose attention, norms, MLP and loss are operators made of kernels, or PyTorch's own.

    python case_studies/operators/gpt.py --steps 20
    python case_studies/operators/gpt.py --steps 20 --size small --compare

With `--compare`, the same weights are trained with PyTorch's functions too, and the losses of both
are printed side by side.  On a GPU in bfloat16, on the processor in float32.  `small` has the
extents of GPT-2 with 124 M parameters.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[2]))

from case_studies.operators.attention import attention
from case_studies.operators.losses import mean_cross_entropy
from case_studies.operators.norms import rms_norm
from case_studies.operators.products import mlp


@dataclass(frozen=True)
class Functions:
    """The four functions of which a model is made."""

    attention: Callable[..., Tensor]
    norm: Callable[..., Tensor]
    mlp: Callable[..., Tensor]
    loss: Callable[..., Tensor]


def _torch_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)


OURS = Functions(attention, rms_norm, mlp, mean_cross_entropy)
PYTORCH = Functions(
    _torch_attention,
    lambda x, weight: F.rms_norm(x, weight.shape, weight, 1e-6),
    lambda x, up, down: F.linear(F.gelu(F.linear(x, up)), down),
    F.cross_entropy,
)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, use: Functions):
        super().__init__()
        self.use, self.heads = use, heads
        self.norms = nn.Parameter(torch.ones(2, width))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        first, second = self.norms.unbind()
        parts = self.qkv(self.use.norm(x, first)).view(batch, length, 3, self.heads, -1)
        mixed = self.use.attention(*parts.unbind(2), causal=True)
        x = x + self.out(mixed.reshape(batch, length, width))
        return x + self.use.mlp(self.use.norm(x, second), self.up.weight, self.down.weight)


class GPT(nn.Module):
    """A decoder whose last layer is the transpose of its first."""

    def __init__(
        self, use: Functions, vocabulary: int, width: int, heads: int, blocks: int, context: int
    ):
        super().__init__()
        self.use = use
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, use) for _ in range(blocks))
        self.norm = nn.Parameter(torch.ones(width))
        for name, weight in self.named_parameters():
            if weight.dim() == 2 and "norms" not in name:
                nn.init.normal_(weight, std=0.02)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean loss in nats a token, of (batch, context) tokens."""
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.use.norm(x, self.norm), self.tokens.weight)
        return self.use.loss(logits.flatten(0, 1), targets.flatten())


@dataclass(frozen=True)
class Size:
    width: int = 64
    heads: int = 2
    blocks: int = 2
    context: int = 32
    batch: int = 4
    vocabulary: int = 96


SIZES = {"tiny": Size(), "small": Size(768, 12, 12, 1024, 16, 50304)}


def text_of(size: Size) -> Tensor:
    """The characters of a file of Python's standard library as numbers."""
    text = Path(argparse.__file__).read_text(errors="ignore").encode("ascii", "ignore")
    return torch.tensor([max(c - 32, 0) % size.vocabulary for c in text])


def batches(size: Size, steps: int, device: str) -> Iterator[Tensor]:
    """Random pieces of the text, of one character more than the context; the same in each run."""
    data, generator = text_of(size).to(device), torch.Generator().manual_seed(0)
    for _ in range(steps):
        starts = torch.randint(0, len(data) - size.context - 1, (size.batch,), generator=generator)
        yield torch.stack([data[s : s + size.context + 1] for s in starts.tolist()])


def trainer(
    use: Functions,
    size: Size,
    device: str,
    dtype: torch.dtype,
    compiled: bool = False,
    rate: float = 3e-3,
) -> Callable[[Tensor], Tensor]:
    """A model with the same weights for any functions, as a step: from a batch to its loss."""
    torch.manual_seed(0)
    model = GPT(use, size.vocabulary, size.width, size.heads, size.blocks, size.context)
    model = model.to(device, dtype)
    run = torch.compile(model, fullgraph=True) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, fused=device == "cuda")

    def step(pieces: Tensor) -> Tensor:
        loss = run(pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def train(
    use: Functions, size: Size, steps: int, device: str, dtype: torch.dtype, compiled: bool = False
) -> list[float]:
    """The loss of each step, from the same weights and batches for any functions."""
    rate = 3e-3 if size.width < 512 else 3e-4
    step = trainer(use, size, device, dtype, compiled, rate)
    return [step(pieces).item() for pieces in batches(size, steps, device)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--compare", action="store_true", help="train with PyTorch's functions too")
    args = parser.parse_args()
    dtype = torch.bfloat16 if args.device == "cuda" else torch.float32
    rest = SIZES[args.size], args.steps, args.device, dtype, args.compile
    found = train(OURS, *rest)
    others = train(PYTORCH, *rest) if args.compare else found
    for step, (ours, theirs) in enumerate(zip(found, others)):
        print(f"step {step}: loss {ours:.4f}" + f", PyTorch {theirs:.4f}" * args.compare)
    assert all(math.isfinite(loss) for loss in found)


if __name__ == "__main__":
    main()
