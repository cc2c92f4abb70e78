"""A denoising diffusion model (U-Net on 64×64) trained in fp32, with an average of its weights."""

import copy

import torch
from torch.nn import functional as F

from stepping import changed, device, finish, size, steps
from unet import UNet

BATCH, SIDE, WIDTH = size((32, 64, 96), (2, 16, 16))
if changed("larger-batch"):
    BATCH *= 2
if changed("tf32"):
    torch.set_float32_matmul_precision("high")
LEVELS = 1000


@torch.no_grad()
def average(kept, model, decay=0.999):
    """Move the average of the weights towards those of now."""
    mine, theirs = list(kept.parameters()), list(model.parameters())
    if changed("foreach-average"):
        torch._foreach_lerp_(mine, theirs, 1 - decay)
        return
    for old, new in zip(mine, theirs):
        old.mul_(decay).add_(new, alpha=1 - decay)


def main():
    torch.manual_seed(0)
    model = UNet(WIDTH).to(device())
    if changed("channels-last"):
        model = model.to(memory_format=torch.channels_last)
    kept = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4, fused=changed("fused-optimizer"))
    forward = torch.compile(model) if changed("compile") else model
    signal = torch.linspace(0.9999, 0.98, LEVELS, device=device()).cumprod(0)
    pictures = torch.randn(8, BATCH, 3, SIDE, SIDE, device=device())
    total = 0.0
    for step in steps(size(36, 6), BATCH):
        clean = pictures[step % len(pictures)]
        if changed("channels-last"):
            clean = clean.contiguous(memory_format=torch.channels_last)
        t = torch.randint(0, LEVELS, (BATCH,), device=device())
        noise, level = torch.randn_like(clean), signal[t][:, None, None, None]
        noisy = level.sqrt() * clean + (1 - level).sqrt() * noise
        with torch.autocast(device(), torch.bfloat16, enabled=changed("bf16")):
            loss = F.mse_loss(forward(noisy, t).float(), noise)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average(kept, model)
        if not changed("no-item"):
            total += loss.item()
    finish(loss.item())


if __name__ == "__main__":
    main()
