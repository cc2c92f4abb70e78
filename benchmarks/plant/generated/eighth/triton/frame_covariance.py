# ruff: noqa: ANN001, ANN201, D103
"""How each frame of a molecule's motion lies to a first one: sums from which rotations follow."""

import torch
import triton
import triton.language as tl


@triton.jit
def frame_covariance_kernel(frame_ptr, first_ptr, out_ptr, A, BLOCK: tl.constexpr):
    f = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    xx = tl.zeros((BLOCK,), dtype=tl.float32)
    xy = tl.zeros((BLOCK,), dtype=tl.float32)
    xz = tl.zeros((BLOCK,), dtype=tl.float32)
    yx = tl.zeros((BLOCK,), dtype=tl.float32)
    yy = tl.zeros((BLOCK,), dtype=tl.float32)
    yz = tl.zeros((BLOCK,), dtype=tl.float32)
    zx = tl.zeros((BLOCK,), dtype=tl.float32)
    zy = tl.zeros((BLOCK,), dtype=tl.float32)
    zz = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, A, BLOCK):
        at = start + offs
        here = at < A
        x = tl.load(frame_ptr + f * 3 * A + at, mask=here, other=0.0)
        y = tl.load(frame_ptr + f * 3 * A + A + at, mask=here, other=0.0)
        z = tl.load(frame_ptr + f * 3 * A + 2 * A + at, mask=here, other=0.0)
        u = tl.load(first_ptr + at, mask=here, other=0.0)
        v = tl.load(first_ptr + A + at, mask=here, other=0.0)
        w = tl.load(first_ptr + 2 * A + at, mask=here, other=0.0)
        xx += x * u
        xy += x * v
        xz += x * w
        yx += y * u
        yy += y * v
        yz += y * w
        zx += z * u
        zy += z * v
        zz += z * w
    tl.store(out_ptr + f * 9, tl.sum(xx, 0))
    tl.store(out_ptr + f * 9 + 1, tl.sum(xy, 0))
    tl.store(out_ptr + f * 9 + 2, tl.sum(xz, 0))
    tl.store(out_ptr + f * 9 + 3, tl.sum(yx, 0))
    tl.store(out_ptr + f * 9 + 4, tl.sum(yy, 0))
    tl.store(out_ptr + f * 9 + 5, tl.sum(yz, 0))
    tl.store(out_ptr + f * 9 + 6, tl.sum(zx, 0))
    tl.store(out_ptr + f * 9 + 7, tl.sum(zy, 0))
    tl.store(out_ptr + f * 9 + 8, tl.sum(zz, 0))


def run(frame, first):
    F, _, A = frame.shape
    out = torch.empty((F, 9), device=frame.device, dtype=torch.float32)
    frame_covariance_kernel[(F,)](frame, first, out, A, 512, num_warps=4)
    return out
