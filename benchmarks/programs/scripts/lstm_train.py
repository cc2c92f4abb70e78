"""A language model with an LSTM cell written by hand, trained through time in fp32."""

import torch
from torch import nn

from stepping import changed, device, finish, size, steps

BATCH, LENGTH, WIDTH, VOCABULARY = size((64, 64, 512, 10_000), (4, 8, 16, 100))
if changed("larger-batch"):
    BATCH *= 4
if changed("tf32"):
    torch.set_float32_matmul_precision("high")


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.x, self.h = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(WIDTH, 4 * WIDTH)

    def forward(self, x, h, c):
        i, f, g, o = (self.x(x) + self.h(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.library = changed("library-lstm")
        self.cell = nn.LSTM(WIDTH, WIDTH, batch_first=True) if self.library else Cell()
        self.out = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.embedding(ids)
        if self.library:
            return self.out(self.cell(x)[0])
        h = c = x.new_zeros(len(x), WIDTH)
        states = []
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], h, c)
            states.append(h)
        return self.out(torch.stack(states, 1))


def main():
    torch.manual_seed(0)
    model = Model().to(device())
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=changed("fused-optimizer"))
    if changed("compile"):
        model.cell = torch.compile(model.cell)
    tokens = torch.randint(0, VOCABULARY, (8, BATCH, LENGTH + 1), device=device())
    losses = []
    for step in steps(size(30, 4), BATCH):
        batch = tokens[step % len(tokens)]
        with torch.autocast(device(), torch.bfloat16, enabled=changed("bf16")):
            scores = model(batch[:, :-1])
            loss = nn.functional.cross_entropy(
                scores.reshape(-1, VOCABULARY), batch[:, 1:].reshape(-1)
            )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        if not changed("no-item"):
            losses.append(loss.item())
    finish(loss.item())


if __name__ == "__main__":
    main()
