"""A ViT-S/16 trained on pictures that a data set makes ready one by one on the host."""

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import ViTConfig, ViTForImageClassification

from stepping import changed, device, endless, finish, size, steps

BATCH, SIDE = size((64, 224), (4, 32))
if changed("larger-batch"):
    BATCH *= 2
if changed("tf32"):
    torch.set_float32_matmul_precision("high")


class Pictures(Dataset):
    """Random pictures, cropped, flipped and normalised as they are read."""

    def __init__(self, count):
        self.raw = torch.randint(0, 256, (64, 3, SIDE + 32, SIDE + 32), dtype=torch.uint8)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        top, left = index * 7 % 32, index * 13 % 32
        picture = self.raw[index % 64, :, top : top + SIDE, left : left + SIDE].float() / 255
        if index % 2:
            picture = picture.flip(-1)
        return (picture - 0.45) / 0.225, index % 100


def main():
    torch.manual_seed(0)
    config = ViTConfig(
        image_size=SIDE, patch_size=16, num_labels=100,
        **size({"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6,
                "intermediate_size": 1536},
               {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
                "intermediate_size": 128}),
    )  # fmt: skip
    model = ViTForImageClassification(config).to(device())
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=changed("fused-optimizer"))
    forward = torch.compile(model) if changed("compile") else model
    pinned = changed("pinned") and torch.cuda.is_available()
    workers = size(6, 1) if changed("workers") else 0
    loader = DataLoader(
        Pictures(BATCH * size(60, 8)), BATCH, drop_last=True, num_workers=workers,
        pin_memory=pinned, persistent_workers=workers > 0,
    )  # fmt: skip
    for _, (pictures, labels) in zip(steps(size(45, 6), BATCH), endless(loader)):
        pictures = pictures.to(device(), non_blocking=pinned)
        labels = labels.to(device(), non_blocking=pinned)
        with torch.autocast(device(), torch.bfloat16, enabled=changed("bf16")):
            loss = forward(pixel_values=pictures, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    finish(loss.item())


if __name__ == "__main__":
    main()
