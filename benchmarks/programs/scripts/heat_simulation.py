"""Reaction and diffusion on a grid, in whole-array operations; doubles, because NumPy made them."""

import numpy as np
import torch

from stepping import changed, device, finish, size, steps

SIDE, INNER = size((1024, 20), (64, 2))
FEED, KILL, SPREAD_U, SPREAD_V = 0.055, 0.062, 0.16, 0.08


def laplacian(z):
    """Of a field on a torus."""
    return (
        torch.roll(z, 1, 0) + torch.roll(z, -1, 0) + torch.roll(z, 1, 1) + torch.roll(z, -1, 1)
        - 4 * z
    )  # fmt: skip


def react(u, v):
    """One step in time."""
    product = u * v * v
    new_u = u + SPREAD_U * laplacian(u) - product + FEED * (1 - u)
    new_v = v + SPREAD_V * laplacian(v) + product - (FEED + KILL) * v
    return new_u.clamp(0, 1), new_v.clamp(0, 1)


def graphed(u, v):
    """A step as a CUDA graph that changes the fields in place."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        react(u, v)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        new_u, new_v = react(u, v)
        u.copy_(new_u)
        v.copy_(new_v)

    def replay(u, v):
        graph.replay()
        return u, v

    return replay


def main():
    rng = np.random.default_rng(0)
    begun = np.kron(rng.random((SIDE // 16, SIDE // 16)) < 0.3, np.ones((16, 16)))
    u = torch.from_numpy(1 - 0.5 * begun).to(device())
    v = torch.from_numpy(0.25 * begun + 0.01 * rng.random((SIDE, SIDE))).to(device())
    if changed("float32"):
        u, v = u.float(), v.float()
    advance = torch.compile(react) if changed("compile") else react
    if changed("cuda-graph"):
        advance = graphed(u, v)
    masses = []
    for _ in steps(size(45, 4), INNER):
        for _ in range(INNER):
            u, v = advance(u, v)
        if not changed("no-item"):
            masses.append(v.sum().item())
    finish(v.mean().item())


if __name__ == "__main__":
    main()
