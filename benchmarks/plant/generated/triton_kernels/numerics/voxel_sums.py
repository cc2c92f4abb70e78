# ruff: noqa: ANN001, ANN201, D103
"""Points of a cloud counted into boxes of space, with the sums of what they carry."""

import triton
import triton.language as tl


@triton.jit
def voxel_sums_kernel(
    x_ptr, y_ptr, z_ptr, value_ptr, out_ptr, N, edge: tl.constexpr, block: tl.constexpr
):
    at = tl.program_id(0) * block + tl.arange(0, block)
    real = at < N
    x = tl.load(x_ptr + at, mask=real, other=0.0)
    y = tl.load(y_ptr + at, mask=real, other=0.0)
    z = tl.load(z_ptr + at, mask=real, other=0.0)
    value = tl.load(value_ptr + at, mask=real, other=0.0)
    across = tl.minimum(tl.maximum(x * edge, 0.0), edge - 1.0).to(tl.int32)
    along = tl.minimum(tl.maximum(y * edge, 0.0), edge - 1.0).to(tl.int32)
    up = tl.minimum(tl.maximum(z * edge, 0.0), edge - 1.0).to(tl.int32)
    box = (up * edge + along) * edge + across
    tl.atomic_add(out_ptr + box * 2, value, mask=real)
    tl.atomic_add(out_ptr + box * 2 + 1, 1.0, mask=real)


def run(x, y, z, value, out):
    N = x.shape[0]
    block = 1024
    voxel_sums_kernel[(triton.cdiv(N, block),)](x, y, z, value, out, N, 64, block, num_warps=4)
    return out
