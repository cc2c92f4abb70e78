"""A trainer with modules, callbacks and metrics, as Lightning structures it; an MLP on tables."""

import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from stepping import changed, device, endless, finish, size, steps

BATCH, FEATURES, WIDTH, LAYERS = size((1024, 256, 2048, 6), (16, 8, 16, 2))
if changed("larger-batch"):
    BATCH *= 4
if changed("tf32"):
    torch.set_float32_matmul_precision("high")


class Module(nn.Module):
    """The model, its loss, its optimizer."""

    def __init__(self):
        super().__init__()
        widths = (FEATURES, *(WIDTH for _ in range(LAYERS)))
        layers = []
        for before, after in itertools.pairwise(widths):
            layers += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU(), nn.Dropout(0.1)]
        self.net = nn.Sequential(*layers, nn.Linear(WIDTH, 10))

    def training_step(self, batch):
        x, y = batch
        scores = self.net(x)
        loss = nn.functional.cross_entropy(scores, y)
        return {"loss": loss, "accuracy": (scores.argmax(-1) == y).float().mean()}

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-3, fused=changed("fused-optimizer"))


class Progress:
    """Running means of what a step returns."""

    def __init__(self):
        self.means = {}

    def on_batch_end(self, outputs):
        for name, value in outputs.items():
            value = value.detach()
            value = value if changed("no-item") else value.cpu().item()
            self.means[name] = 0.9 * self.means.get(name, 0.0) + 0.1 * value


class GuardAgainstNan:
    """Stops where the loss is no number."""

    def on_batch_end(self, outputs):
        if not changed("no-item") and torch.isnan(outputs["loss"]):
            raise RuntimeError("the loss is no number")


class Trainer:
    def __init__(self, callbacks):
        self.callbacks = callbacks

    def fit(self, module, loader, count):
        module = module.to(device())
        optimizer = module.configure_optimizers()
        step = torch.compile(module.training_step) if changed("compile") else module.training_step
        for _, batch in zip(steps(count, BATCH), endless(loader)):
            batch = [each.to(device(), non_blocking=changed("pinned")) for each in batch]
            with torch.autocast(device(), torch.bfloat16, enabled=changed("bf16")):
                outputs = step(batch)
            optimizer.zero_grad()
            outputs["loss"].backward()
            optimizer.step()
            for callback in self.callbacks:
                callback.on_batch_end(outputs)
        return outputs["loss"].item()


def main():
    torch.manual_seed(0)
    rows = BATCH * size(24, 4)
    data = TensorDataset(torch.randn(rows, FEATURES), torch.randint(0, 10, (rows,)))
    workers = size(4, 1) if changed("workers") else 0
    loader = DataLoader(
        data, BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0,
        pin_memory=changed("pinned") and torch.cuda.is_available(),
    )  # fmt: skip
    trainer = Trainer([Progress(), GuardAgainstNan()])
    finish(trainer.fit(Module(), loader, size(60, 6)))


if __name__ == "__main__":
    main()
