# ruff: noqa: ANN001, ANN201, D103
"""Colours graded by a table of 33 by 33 by 33 of them, between whose entries lines are drawn."""

import torch
import triton
import triton.language as tl


@triton.jit
def colour_cube_kernel(rgb_ptr, cube_ptr, out_ptr, n, EDGE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    r = tl.load(rgb_ptr + i, mask=mask, other=0.0) * (EDGE - 1)
    g = tl.load(rgb_ptr + n + i, mask=mask, other=0.0) * (EDGE - 1)
    b = tl.load(rgb_ptr + 2 * n + i, mask=mask, other=0.0) * (EDGE - 1)
    r0 = tl.minimum(r.to(tl.int32), EDGE - 2)
    g0 = tl.minimum(g.to(tl.int32), EDGE - 2)
    b0 = tl.minimum(b.to(tl.int32), EDGE - 2)
    fr, fg, fb = r - r0.to(tl.float32), g - g0.to(tl.float32), b - b0.to(tl.float32)
    for channel in tl.static_range(3):
        value = tl.zeros((BLOCK,), dtype=tl.float32)
        for corner in tl.static_range(8):
            dr, dg, db = corner // 4, corner // 2 % 2, corner % 2
            cell = ((r0 + dr) * EDGE + g0 + dg) * EDGE + b0 + db
            wr = fr if dr == 1 else 1.0 - fr
            wg = fg if dg == 1 else 1.0 - fg
            wb = fb if db == 1 else 1.0 - fb
            value += wr * wg * wb * tl.load(cube_ptr + cell * 3 + channel, mask=mask, other=0.0)
        tl.store(out_ptr + channel * n + i, value, mask=mask)


def run(rgb, cube):
    n = rgb.shape[1]
    out = torch.empty_like(rgb)
    BLOCK = 256
    colour_cube_kernel[(triton.cdiv(n, BLOCK),)](rgb, cube, out, n, 33, BLOCK, num_warps=4)
    return out
