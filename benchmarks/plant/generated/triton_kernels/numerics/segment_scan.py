# ruff: noqa: ANN001, ANN201, D103
"""Running sums that begin anew where a flag says."""

import torch
import triton
import triton.language as tl


@triton.jit
def segment_scan_kernel(x_ptr, flag_ptr, out_ptr, N, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    before = 0.0
    for n in range(0, N, block):
        real = n + at < N
        x = tl.load(x_ptr + row * N + n + at, mask=real, other=0.0)
        flag = tl.load(flag_ptr + row * N + n + at, mask=real, other=0)
        flag = (flag > 0).to(tl.int32)
        begun, total = tl.associative_scan((flag, x), 0, begin_anew)
        y = tl.where(begun > 0, total, total + before)
        tl.store(out_ptr + row * N + n + at, y, mask=real)
        before = tl.sum(tl.where(at == block - 1, y, 0.0), 0)


@triton.jit
def begin_anew(flag, total, later_flag, later):
    return flag | later_flag, tl.where(later_flag > 0, later, total + later)


def run(x, flag):
    M, N = x.shape
    out = torch.empty_like(x)
    block = 1024
    segment_scan_kernel[(M,)](x, flag, out, N, block, num_warps=4)
    return out
