"""A character model with attention written out, trained in fp32: a small GPT from a tutorial."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from stepping import changed, device, finish, size, steps

BATCH, LENGTH, WIDTH, LAYERS, HEADS = size((32, 256, 384, 6, 6), (2, 16, 32, 2, 2))
VOCABULARY = 65
if changed("larger-batch"):
    BATCH *= 2
if changed("tf32"):
    torch.set_float32_matmul_precision("high")


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", torch.tril(torch.ones(LENGTH, LENGTH))[None, None])

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (each.view(b, t, HEADS, c // HEADS).transpose(1, 2)
                   for each in self.qkv(x).split(WIDTH, dim=2))  # fmt: skip
        if changed("sdpa"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
            y = F.softmax(scores, dim=-1) @ v
        return self.out(y.transpose(1, 2).contiguous().view(b, t, c))


class Gelu(nn.Module):
    """The approximation as papers print it."""

    def forward(self, x):
        if changed("fused-gelu"):
            return F.gelu(x, approximate="tanh")
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), Gelu(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


def main():
    torch.manual_seed(0)
    model = Model().to(device())
    optimizer = torch.optim.AdamW(
        model.parameters(), 1e-3, foreach=False if not changed("fused-optimizer") else None,
        fused=True if changed("fused-optimizer") else None,
    )  # fmt: skip
    forward = torch.compile(model) if changed("compile") else model
    text = torch.randint(0, VOCABULARY, (100_000,))
    for step in steps(size(45, 6), BATCH):
        at = torch.randint(0, len(text) - LENGTH - 1, (BATCH,)).tolist()
        ids = torch.stack([text[i : i + LENGTH] for i in at]).to(device())
        targets = torch.stack([text[i + 1 : i + 1 + LENGTH] for i in at]).to(device())
        with torch.autocast(device(), torch.bfloat16, enabled=changed("bf16")):
            loss = forward(ids, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    finish(loss.item())


if __name__ == "__main__":
    main()
