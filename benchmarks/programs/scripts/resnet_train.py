"""ResNet-50 trained on pictures that a loader crops and normalises on the host."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from stepping import changed, device, endless, finish, size, steps

BATCH, SIDE = size((64, 224), (4, 32))
if changed("larger-batch"):
    BATCH *= 2


class Bottleneck(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        after = 4 * width
        self.conv1 = nn.Conv2d(before, width, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.conv3 = nn.Conv2d(width, after, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.bn3, self.relu = nn.BatchNorm2d(after), nn.ReLU(inplace=True)
        self.down = None
        if stride != 1 or before != after:
            self.down = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x):
        kept = x if self.down is None else self.down(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + kept)


def resnet(blocks, classes=1000):
    """The layers, one after another."""
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]  # fmt: skip
    before = 64
    for stage, count in enumerate(blocks):
        for at in range(count):
            layers.append(Bottleneck(before, 64 << stage, 2 if stage and not at else 1))
            before = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


class Pictures(Dataset):
    def __init__(self, count):
        self.raw = torch.randint(0, 256, (64, 3, 256, 256), dtype=torch.uint8)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        top, left = index * 5 % 32, index * 11 % 32
        picture = self.raw[index % 64, :, top : top + SIDE, left : left + SIDE]
        return (picture.float() / 255 - 0.45) / 0.225, index % 1000


def main():
    torch.manual_seed(0)
    model = resnet(size((3, 4, 6, 3), (1, 1))).to(device())
    if changed("channels-last"):
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(
        model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4,
        fused=True if changed("fused-optimizer") else None,
    )  # fmt: skip
    forward = torch.compile(model) if changed("compile") else model
    pinned = changed("pinned") and torch.cuda.is_available()
    workers = size(8, 1) if changed("workers") else 0
    loader = DataLoader(
        Pictures(BATCH * size(60, 8)), BATCH, num_workers=workers, drop_last=True,
        pin_memory=pinned, persistent_workers=workers > 0,
    )  # fmt: skip
    right = 0.0
    for _, (pictures, labels) in zip(steps(size(30, 6), BATCH), endless(loader)):
        pictures = pictures.to(device(), non_blocking=pinned)
        labels = labels.to(device(), non_blocking=pinned)
        if changed("channels-last"):
            pictures = pictures.contiguous(memory_format=torch.channels_last)
        with torch.autocast(device(), torch.bfloat16, enabled=changed("bf16")):
            scores = forward(pictures)
            loss = nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not changed("no-item"):
            right += (scores.argmax(1) == labels).float().mean().item()
    finish(loss.item())


if __name__ == "__main__":
    main()
