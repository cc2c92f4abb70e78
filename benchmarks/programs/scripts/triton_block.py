"""RMS norm, a gated activation and a softmax, Triton kernels as first tutorials write them."""

import torch
import triton
import triton.language as tl

from stepping import changed, device, finish, size, steps

ROWS, WIDTH = size((8192, 4096), (8, 64))
WARPS = 8 if changed("more-warps") else 1
KIND = torch.bfloat16 if changed("half") else torch.float32


@triton.jit
def rms_norm(x, weight, out, width: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([block], tl.float32)
    for at in range(0, width, block):
        part = tl.load(x + row * width + at + tl.arange(0, block)).to(tl.float32)
        total += part * part
    scale = 1 / tl.sqrt(tl.sum(total) / width + 1e-6)
    for at in range(0, width, block):
        columns = at + tl.arange(0, block)
        part = tl.load(x + row * width + columns).to(tl.float32)
        held = tl.load(weight + columns).to(tl.float32)
        tl.store(out + row * width + columns, part * scale * held)


@triton.jit
def silu(x, out, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    held = tl.load(x + at, mask=at < count).to(tl.float32)
    tl.store(out + at, held / (1 + tl.exp(-held)), mask=at < count)


@triton.jit
def multiply(x, y, out, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = at < count
    tl.store(out + at, tl.load(x + at, mask=mask) * tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def silu_multiply(x, y, out, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = at < count
    held = tl.load(x + at, mask=mask).to(tl.float32)
    other = tl.load(y + at, mask=mask).to(tl.float32)
    tl.store(out + at, held / (1 + tl.exp(-held)) * other, mask=mask)


@triton.jit
def softmax(x, out, width: tl.constexpr):
    at = tl.program_id(0) * width + tl.arange(0, width)
    held = tl.load(x + at).to(tl.float32)
    held = tl.exp(held - tl.max(held, 0))
    tl.store(out + at, held / tl.sum(held, 0))


def main():
    torch.manual_seed(0)
    x, gate = (torch.randn(ROWS, WIDTH, device=device(), dtype=KIND) for _ in range(2))
    weight = torch.ones(WIDTH, device=device(), dtype=KIND)
    normed, active, product, out = (torch.empty_like(x) for _ in range(4))
    count, block = x.numel(), 1024 if changed("larger-blocks") else 128
    grid = (triton.cdiv(count, block),)
    for _ in steps(size(90, 4), ROWS):
        rms_norm[(ROWS,)](x, weight, normed, WIDTH, min(WIDTH, 8 * block), num_warps=WARPS)
        if changed("fused-kernel"):
            silu_multiply[grid](normed, gate, product, count, block, num_warps=WARPS)
        else:
            silu[grid](normed, active, count, block, num_warps=WARPS)
            multiply[grid](active, gate, product, count, block, num_warps=WARPS)
        softmax[(ROWS,)](product, out, WIDTH, num_warps=WARPS)
    finish(out.float().square().sum().item() / ROWS)


if __name__ == "__main__":
    main()
