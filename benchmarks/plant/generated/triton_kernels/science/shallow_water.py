# ruff: noqa: ANN001, ANN201, D103
"""Height and speeds of water after a small time, on a grid that closes on itself."""

import torch
import triton
import triton.language as tl


@triton.jit
def shallow_water_kernel(h_ptr, u_ptr, v_ptr, out_ptr, H, W, block: tl.constexpr):
    i = tl.program_id(1)
    j = tl.program_id(0) * block + tl.arange(0, block)
    real = j < W
    here = i * W + j
    up = (i + 1) % H * W + j
    down = (i + H - 1) % H * W + j
    right = i * W + (j + 1) % W
    left = i * W + (j + W - 1) % W
    h = tl.load(h_ptr + here, mask=real, other=1.0)
    u = tl.load(u_ptr + here, mask=real, other=0.0)
    v = tl.load(v_ptr + here, mask=real, other=0.0)
    across = tl.load(h_ptr + right, mask=real) - tl.load(h_ptr + left, mask=real)
    along = tl.load(h_ptr + up, mask=real) - tl.load(h_ptr + down, mask=real)
    wide = tl.load(u_ptr + right, mask=real) - tl.load(u_ptr + left, mask=real)
    high = tl.load(v_ptr + up, mask=real) - tl.load(v_ptr + down, mask=real)
    level = h - (h * (wide + high) + u * across + v * along) * 0.005
    east = u - across * 0.049
    north = v - along * 0.049
    tl.store(out_ptr + here, level, mask=real)
    tl.store(out_ptr + H * W + here, east, mask=real)
    tl.store(out_ptr + 2 * H * W + here, north, mask=real)


def run(h, u, v):
    H, W = h.shape
    out = torch.empty((3, H, W), device=h.device, dtype=h.dtype)
    block = 512
    shallow_water_kernel[(triton.cdiv(W, block), H)](h, u, v, out, H, W, block, num_warps=4)
    return out
