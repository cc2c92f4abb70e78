# ruff: noqa: ANN001, ANN201, D103
"""A step of charged particles in electric and magnetic fields, which keeps their energy."""

import torch
import triton
import triton.language as tl


@triton.jit
def boris_push_kernel(speed_ptr, electric_ptr, magnetic_ptr, out_ptr, N, half, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    real = at < N
    kick_x = tl.load(electric_ptr + at, mask=real, other=0.0) * half
    kick_y = tl.load(electric_ptr + N + at, mask=real, other=0.0) * half
    kick_z = tl.load(electric_ptr + 2 * N + at, mask=real, other=0.0) * half
    t_x = tl.load(magnetic_ptr + at, mask=real, other=0.0) * half
    t_y = tl.load(magnetic_ptr + N + at, mask=real, other=0.0) * half
    t_z = tl.load(magnetic_ptr + 2 * N + at, mask=real, other=0.0) * half
    x = tl.load(speed_ptr + at, mask=real, other=0.0) + kick_x
    y = tl.load(speed_ptr + N + at, mask=real, other=0.0) + kick_y
    z = tl.load(speed_ptr + 2 * N + at, mask=real, other=0.0) + kick_z
    share = 2.0 / (1.0 + t_x * t_x + t_y * t_y + t_z * t_z)
    turned_x = x + y * t_z - z * t_y
    turned_y = y + z * t_x - x * t_z
    turned_z = z + x * t_y - y * t_x
    x += (turned_y * t_z - turned_z * t_y) * share + kick_x
    y += (turned_z * t_x - turned_x * t_z) * share + kick_y
    z += (turned_x * t_y - turned_y * t_x) * share + kick_z
    tl.store(out_ptr + at, x, mask=real)
    tl.store(out_ptr + N + at, y, mask=real)
    tl.store(out_ptr + 2 * N + at, z, mask=real)


def run(speed, electric, magnetic):
    N = speed.shape[1]
    out = torch.empty_like(speed)
    block = 1024
    boris_push_kernel[(triton.cdiv(N, block),)](
        speed, electric, magnetic, out, N, 0.05, block, num_warps=4
    )
    return out
