"""BERT fine-tuned as a classifier of sentences, in fp32, as first tutorials do it."""

import torch
from transformers import BertConfig, BertForSequenceClassification

from stepping import changed, device, endless, finish, size, steps

BATCH, LENGTH = size((32, 128), (4, 16))
if changed("larger-batch"):
    BATCH *= 2
if changed("tf32"):
    torch.set_float32_matmul_precision("high")


def batches():
    """Random sentences with padding, a tensor each on the host."""
    for _ in range(16):
        ids = torch.randint(1000, 30000, (BATCH, LENGTH))
        lengths = torch.randint(LENGTH // 4, LENGTH + 1, (BATCH, 1))
        mask = (torch.arange(LENGTH) < lengths).long()
        batch = {"input_ids": ids * mask, "attention_mask": mask, "labels": ids[:, 0] % 2}
        if changed("pinned") and torch.cuda.is_available():
            batch = {name: tensor.pin_memory() for name, tensor in batch.items()}
        yield batch


def main():
    torch.manual_seed(0)
    config = BertConfig(
        num_labels=2, **size({}, {"num_hidden_layers": 2, "hidden_size": 64,
                                  "num_attention_heads": 2, "intermediate_size": 128}),
    )  # fmt: skip
    config._attn_implementation = "sdpa" if changed("sdpa") else "eager"
    model = BertForSequenceClassification(config).to(device())
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=changed("fused-optimizer"))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / 2000))
    forward = torch.compile(model) if changed("compile") else model
    data = list(batches())
    running = 0.0
    for _, batch in zip(steps(size(45, 6), BATCH), endless(data)):
        batch = {k: v.to(device(), non_blocking=changed("pinned")) for k, v in batch.items()}
        with torch.autocast(device(), torch.bfloat16, enabled=changed("bf16")):
            loss = forward(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if not changed("no-item"):
            running += loss.item()
    print(f"sum of losses {running:.3f}")
    finish(loss.item())


if __name__ == "__main__":
    main()
