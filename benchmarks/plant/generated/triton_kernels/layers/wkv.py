# ruff: noqa: ANN001, ANN201, D103
"""A memory of keys and values that fades channel by channel, with more of the newest step."""

import torch
import triton
import triton.language as tl


@triton.jit
def wkv_kernel(
    r_ptr, k_ptr, v_ptr, fade_ptr, now_ptr, out_ptr, L,
    dim: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    i = tl.arange(0, dim)
    j = tl.program_id(0) * columns + tl.arange(0, columns)
    now = tl.load(now_ptr + i)
    state = tl.zeros((dim, columns), dtype=tl.float32)
    for t in range(0, L):
        row = (head * L + t) * dim
        r = tl.load(r_ptr + row + i)
        k = tl.load(k_ptr + row + i)
        v = tl.load(v_ptr + row + j)
        fade = tl.load(fade_ptr + row + i)
        new = k[:, None] * v[None, :]
        y = tl.sum(r[:, None] * (state + now[:, None] * new), 0)
        state = state * fade[:, None] + new
        tl.store(out_ptr + row + j, y)


def run(r, k, v, fade, now):
    heads, L, dim = r.shape
    out = torch.empty_like(v)
    columns = 32
    wkv_kernel[(dim // columns, heads)](r, k, v, fade, now, out, L, dim, columns, num_warps=4)
    return out
