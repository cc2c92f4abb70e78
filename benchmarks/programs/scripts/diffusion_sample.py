"""Pictures sampled by a diffusion U-Net: 4 pictures of 32×32, ten denoising calls a step."""

import itertools

import torch

from stepping import changed, device, finish, size, steps
from unet import UNet

BATCH, SIDE, WIDTH, CALLS = size((4, 32, 64, 10), (2, 16, 16, 2))
if changed("larger-batch"):
    BATCH *= 4
if changed("tf32"):
    torch.set_float32_matmul_precision("high")


def graphed(model, x, t):
    """The model as one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(x, t)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(x, t)

    def replay(
        new_x, new_t, model=model
    ):  # the graph reads the model's weights, which have to stay
        x.copy_(new_x)
        t.copy_(new_t)
        graph.replay()
        return out

    return replay


@torch.no_grad()
def main():
    torch.manual_seed(0)
    model = UNet(WIDTH).to(device()).eval()
    kind = torch.bfloat16 if changed("half") else torch.float32
    model = model.to(kind)
    if changed("channels-last"):
        model = model.to(memory_format=torch.channels_last)
    x = torch.randn(BATCH, 3, SIDE, SIDE, device=device(), dtype=kind)
    if changed("compile"):
        model = torch.compile(model)
    if changed("cuda-graph"):
        model = graphed(model, x.clone(), torch.zeros(BATCH, device=device()))
    signal = torch.linspace(0.9999, 0.98, 1000, device=device()).cumprod(0).to(kind)
    times = torch.linspace(999, 0, CALLS + 1).long().tolist()
    for _ in steps(size(36, 6), BATCH):
        x = torch.randn(BATCH, 3, SIDE, SIDE, device=device(), dtype=kind)
        if changed("channels-last"):
            x = x.contiguous(memory_format=torch.channels_last)
        for now, then in itertools.pairwise(times):
            noise = model(x, torch.full((BATCH,), float(now), device=device()))
            clean = (x - (1 - signal[now]).sqrt() * noise) / signal[now].sqrt()
            clean = clean.clamp(-1, 1)
            x = signal[then].sqrt() * clean + (1 - signal[then]).sqrt() * noise
    finish(x.float().std().item())


if __name__ == "__main__":
    main()
