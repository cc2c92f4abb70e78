"""The U-Net of the diffusion programs: residual blocks with group norm, attention at the bottom."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, before, after, time):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, before), nn.GroupNorm(8, after)
        self.conv1 = nn.Conv2d(before, after, 3, padding=1)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1)
        self.time = nn.Linear(time, after)
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(t))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.skip(x)


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).flatten(2).transpose(1, 2).chunk(3, -1)
        scores = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(c), -1)
        return x + self.out((scores @ v).transpose(1, 2).reshape(b, c, h, w))


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        time, widths = 4 * width, (width, 2 * width, 4 * width)
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        before = width
        for after in widths:
            self.down.append(Residual(before, after, time))
            before = after
        self.middle1, self.middle2 = Residual(before, before, time), Residual(before, before, time)
        self.attention = Attention(before)
        for after in reversed(widths):
            self.up.append(Residual(before + after, after, time))
            before = after
        self.norm, self.last = nn.GroupNorm(8, width), nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, t):
        half = self.width // 2
        steps = torch.exp(-math.log(10000) * torch.arange(half, device=x.device) / half)
        angles = t[:, None].float() * steps
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1).to(x.dtype))
        x, kept = self.first(x), []
        for block in self.down:
            x = block(x, time)
            kept.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle2(self.attention(self.middle1(x, time)), time)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = block(torch.cat([x, kept.pop()], 1), time)
        return self.last(F.silu(self.norm(x)))
