"""T5-small trained as a translator: encoder and decoder in fp32, Adafactor replaced by AdamW."""

import torch
from transformers import T5Config, T5ForConditionalGeneration

from stepping import changed, device, finish, size, steps

BATCH, SOURCE, TARGET = size((32, 256, 64), (2, 16, 8))
if changed("larger-batch"):
    BATCH *= 2
if changed("tf32"):
    torch.set_float32_matmul_precision("high")


def main():
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=32128, decoder_start_token_id=0, dropout_rate=0.1,
        **size({"d_model": 512, "d_ff": 2048, "num_layers": 6, "num_heads": 8},
               {"d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 2, "d_kv": 32}),
    )  # fmt: skip
    model = T5ForConditionalGeneration(config).to(device())
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=changed("fused-optimizer"))
    forward = torch.compile(model) if changed("compile") else model
    source = torch.randint(2, 32000, (8, BATCH, SOURCE), device=device())
    target = torch.randint(2, 32000, (8, BATCH, TARGET), device=device())
    mask = torch.ones_like(source)
    history = []
    for step in steps(size(36, 6), BATCH):
        at = step % len(source)
        with torch.autocast(device(), torch.bfloat16, enabled=changed("bf16")):
            loss = forward(input_ids=source[at], attention_mask=mask[at], labels=target[at]).loss
        loss.backward()
        if not changed("no-item"):
            history.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    finish(loss.item())


if __name__ == "__main__":
    main()
