# ruff: noqa: ANN001, ANN201, D103
"""Forces on atoms from lists of their neighbours, by the law of Lennard-Jones."""

import torch
import triton
import triton.language as tl


@triton.jit
def pair_forces_kernel(
    place_ptr, neighbour_ptr, out_ptr, M, N, E, atoms: tl.constexpr, width: tl.constexpr
):  # fmt: skip
    i = tl.program_id(0) * atoms + tl.arange(0, atoms)
    e = tl.arange(0, width)
    real = i < M
    x = tl.load(place_ptr + i, mask=real, other=0.0)
    y = tl.load(place_ptr + N + i, mask=real, other=0.0)
    z = tl.load(place_ptr + 2 * N + i, mask=real, other=0.0)
    fx = tl.zeros((atoms, width), dtype=tl.float32)
    fy = tl.zeros((atoms, width), dtype=tl.float32)
    fz = tl.zeros((atoms, width), dtype=tl.float32)
    for n in range(0, E, width):
        other = tl.load(
            neighbour_ptr + i[:, None] * E + (n + e)[None, :], mask=real[:, None], other=0
        )
        dx = tl.load(place_ptr + other) - x[:, None]
        dy = tl.load(place_ptr + N + other) - y[:, None]
        dz = tl.load(place_ptr + 2 * N + other) - z[:, None]
        near = 1.0 / (dx * dx + dy * dy + dz * dz + 1.0)
        cube = near * near * near
        force = (0.5 - cube) * cube * near
        fx += dx * force
        fy += dy * force
        fz += dz * force
    tl.store(out_ptr + i, tl.sum(fx, 1), mask=real)
    tl.store(out_ptr + M + i, tl.sum(fy, 1), mask=real)
    tl.store(out_ptr + 2 * M + i, tl.sum(fz, 1), mask=real)


def run(place, neighbour):
    N, (M, E) = place.shape[1], neighbour.shape
    out = torch.empty((3, M), device=place.device, dtype=place.dtype)
    atoms, width = 32, 32
    pair_forces_kernel[(triton.cdiv(M, atoms),)](
        place, neighbour, out, M, N, E, atoms, width, num_warps=4
    )
    return out
