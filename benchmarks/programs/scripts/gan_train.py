"""A DCGAN on 64×64 pictures: two networks of convolutions that train in turn, in fp32."""

import torch
from torch import nn

from stepping import changed, device, finish, size, steps

BATCH, WIDTH, NOISE = size((128, 64, 100), (4, 8, 8))
if changed("larger-batch"):
    BATCH *= 2


def generator():
    """From noise to a picture."""
    layers, before = [], NOISE
    for at, after in enumerate((8 * WIDTH, 4 * WIDTH, 2 * WIDTH, WIDTH)):
        stride, padding = (2, 1) if at else (1, 0)
        layers += [nn.ConvTranspose2d(before, after, 4, stride, padding, bias=False),
                   nn.BatchNorm2d(after), nn.ReLU(True)]  # fmt: skip
        before = after
    return nn.Sequential(*layers, nn.ConvTranspose2d(before, 3, 4, 2, 1, bias=False), nn.Tanh())


def critic():
    """From a picture to a number."""
    layers, before = [], 3
    for at, after in enumerate((WIDTH, 2 * WIDTH, 4 * WIDTH, 8 * WIDTH)):
        layers += [nn.Conv2d(before, after, 4, 2, 1, bias=False)]
        layers += [nn.BatchNorm2d(after)] if at else []
        layers += [nn.LeakyReLU(0.2, True)]
        before = after
    return nn.Sequential(*layers, nn.Conv2d(before, 1, 4, 1, 0, bias=False), nn.Flatten(0))


def main():
    torch.manual_seed(0)
    makes, judges = generator().to(device()), critic().to(device())
    if changed("channels-last"):
        makes = makes.to(memory_format=torch.channels_last)
        judges = judges.to(memory_format=torch.channels_last)
    options = {"lr": 2e-4, "betas": (0.5, 0.999), "fused": changed("fused-optimizer")}
    of_maker = torch.optim.Adam(makes.parameters(), **options)
    of_judge = torch.optim.Adam(judges.parameters(), **options)
    make, judge = makes, judges
    if changed("compile"):
        make, judge = torch.compile(makes), torch.compile(judges)
    criterion = nn.BCEWithLogitsLoss()
    pictures = torch.rand(8, BATCH, 3, 64, 64, device=device()) * 2 - 1
    real, fake = torch.ones(BATCH, device=device()), torch.zeros(BATCH, device=device())
    for step in steps(size(45, 4), BATCH):
        true = pictures[step % len(pictures)]
        if changed("channels-last"):
            true = true.contiguous(memory_format=torch.channels_last)
        noise = torch.randn(BATCH, NOISE, 1, 1, device=device())
        with torch.autocast(device(), torch.bfloat16, enabled=changed("bf16")):
            made = make(noise)
            loss_of_judge = criterion(judge(true), real) + criterion(judge(made.detach()), fake)
        of_judge.zero_grad()
        loss_of_judge.backward()
        of_judge.step()
        with torch.autocast(device(), torch.bfloat16, enabled=changed("bf16")):
            loss_of_maker = criterion(judge(made), real)
        of_maker.zero_grad()
        loss_of_maker.backward()
        of_maker.step()
        if not changed("no-item"):
            said = f"judge {loss_of_judge.item():.3f}, maker {loss_of_maker.item():.3f}"
    if not changed("no-item"):
        print(said)
    finish(loss_of_judge.item())


if __name__ == "__main__":
    main()
