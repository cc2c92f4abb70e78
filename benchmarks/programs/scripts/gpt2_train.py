"""GPT-2 (124M), trained on random tokens with bf16 autocast and AdamW."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from stepping import changed, device, finish, size, steps

BATCH, LENGTH = size((8, 512), (2, 16))
if changed("larger-batch"):
    BATCH *= 2


def main():
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=50304 if changed("padded-vocabulary") else 50257,
        activation_function="gelu_pytorch_tanh" if changed("fused-gelu") else "gelu_new",
        **size({}, {"n_layer": 2, "n_embd": 64, "n_head": 2}),
    )
    model = GPT2LMHeadModel(config).to(device())
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=changed("fused-optimizer"))
    if changed("compile"):
        model = torch.compile(model)
    tokens = torch.randint(0, 50257, (16, BATCH, LENGTH), device=device())

    for step in steps(size(45, 6), BATCH):
        batch = tokens[step % len(tokens)]
        with torch.autocast(device(), dtype=torch.bfloat16):
            loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    finish(loss.item())


if __name__ == "__main__":
    main()
