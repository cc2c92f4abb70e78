# ruff: noqa: ANN001, ANN201, ANN202
"""Mamba-2's chunk scan in Triton: what `case_studies/chunk_scan.py` computes, one block a tile.

Only imported where Triton is.  The same tiles are tried that `mamba_ssm` tries for its kernel.
"""

import triton
import triton.language as tl

TILES = [(128, 64, 4), (128, 32, 4), (64, 64, 4), (64, 32, 4), (128, 64, 8), (64, 64, 2)]
"""Rows, steps at once, warps."""


@triton.autotune(
    configs=[
        triton.Config({"M": m, "K": k}, num_stages=stages, num_warps=warps)
        for m, k, warps in TILES
        for stages in (3, 4)
    ],
    key=["size", "heads"],
)
@triton.jit
def _scan(
    cb, x, dt, decay, c, states, d, y, chunks, heads, ratio,
    size: tl.constexpr, width: tl.constexpr, state: tl.constexpr, M: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    part, head, bc = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    b, chunk = bc // chunks, bc % chunks
    group, groups = head // ratio, heads // ratio
    cb += (bc * groups + group) * size * size
    first = (b * chunks + chunk) * size
    x += (first * heads + head) * width
    y += (first * heads + head) * width
    c += (first * groups + group) * state
    states += (bc * heads + head) * width * state
    dt += ((b * heads + head) * chunks + chunk) * size
    decay += ((b * heads + head) * chunks + chunk) * size

    m, n = part * M + tl.arange(0, M), tl.arange(0, width)
    s, k = tl.arange(0, state), tl.arange(0, K)
    decay_m = tl.load(decay + m)
    before = tl.load(c + m[:, None] * groups * state + s[None, :])
    held = tl.load(states + n[None, :] * state + s[:, None])
    total = tl.dot(before, held) * tl.exp(decay_m)[:, None]
    for start in range(0, (part + 1) * M, K):
        at = start + k
        weights = tl.load(cb + m[:, None] * size + at[None, :]).to(tl.float32)
        weights *= tl.exp(decay_m[:, None] - tl.load(decay + at)[None, :])
        weights *= tl.load(dt + at)[None, :]
        weights = tl.where(m[:, None] >= at[None, :], weights, 0.0)
        steps = tl.load(x + at[:, None] * heads * width + n[None, :])
        total += tl.dot(weights.to(steps.dtype), steps)
    places = m[:, None] * heads * width + n[None, :]
    total += tl.load(x + places).to(tl.float32) * tl.load(d + head)
    tl.store(y + places, total.to(y.dtype.element_ty))


def chunk_scan(cb, x, dt, decay, c, states, d, y):
    """Into `y`; arguments as those of the case study."""
    _, chunks, groups, size, _ = cb.shape
    _, _, heads, width = x.shape

    def grid(tile):
        return size // tile["M"], heads, cb.shape[0] * chunks

    ratio = heads // groups
    _scan[grid](cb, x, dt, decay, c, states, d, y, chunks, heads, ratio, size, width, c.shape[-1])
    return y
