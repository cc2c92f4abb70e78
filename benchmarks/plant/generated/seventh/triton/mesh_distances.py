# ruff: noqa: ANN001, ANN201, D103
"""Distances of points to the nearest triangle of a mesh."""

import torch
import triton
import triton.language as tl


@triton.jit
def to_segment(px, py, pz, ax, ay, az, dx, dy, dz):
    """Return squared distances of points, given from a segment's start, to the segment."""
    qx, qy, qz = px - ax, py - ay, pz - az
    t = (qx * dx + qy * dy + qz * dz) / (dx * dx + dy * dy + dz * dz)
    t = tl.minimum(tl.maximum(t, 0.0), 1.0)
    qx, qy, qz = qx - t * dx, qy - t * dy, qz - t * dz
    return qx * qx + qy * qy + qz * qz


@triton.jit
def mesh_distances_kernel(point_ptr, tri_ptr, out_ptr, n_points, n_tri, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = p < n_points
    px = tl.load(point_ptr + p, mask=ok, other=0.0)
    py = tl.load(point_ptr + n_points + p, mask=ok, other=0.0)
    pz = tl.load(point_ptr + 2 * n_points + p, mask=ok, other=0.0)
    nearest = tl.full((BLOCK,), 1e30, dtype=tl.float32)
    for n in range(0, n_tri):
        base = tri_ptr + n * 9
        ax, ay, az = tl.load(base), tl.load(base + 1), tl.load(base + 2)
        ux, uy, uz = tl.load(base + 3), tl.load(base + 4), tl.load(base + 5)
        vx, vy, vz = tl.load(base + 6), tl.load(base + 7), tl.load(base + 8)
        nx, ny, nz = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
        qx, qy, qz = px - ax, py - ay, pz - az
        height = qx * nx + qy * ny + qz * nz
        area = nx * nx + ny * ny + nz * nz
        s = (qy * vz - qz * vy) * nx + (qz * vx - qx * vz) * ny + (qx * vy - qy * vx) * nz
        t = (uy * qz - uz * qy) * nx + (uz * qx - ux * qz) * ny + (ux * qy - uy * qx) * nz
        above = (s >= 0.0) & (t >= 0.0) & (s + t <= area)
        one = to_segment(px, py, pz, ax, ay, az, ux, uy, uz)
        two = to_segment(px, py, pz, ax, ay, az, vx, vy, vz)
        rim = to_segment(px, py, pz, ax + ux, ay + uy, az + uz, vx - ux, vy - uy, vz - uz)
        edge = tl.minimum(tl.minimum(one, two), rim)
        nearest = tl.minimum(nearest, tl.where(above, height * height / area, edge))
    tl.store(out_ptr + p, tl.sqrt(nearest), mask=ok)


def run(point, tri):
    n_points = point.shape[1]
    out = torch.empty((n_points,), device=point.device, dtype=torch.float32)
    BLOCK = 128
    mesh_distances_kernel[(triton.cdiv(n_points, BLOCK),)](
        point, tri, out, n_points, tri.shape[0], BLOCK, num_warps=4
    )
    return out
