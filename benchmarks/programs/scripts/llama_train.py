"""A small Llama fine-tuned with gradient checkpointing; its tokenizer got one token of its own."""

import torch
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM

from stepping import changed, device, finish, size, steps

BATCH, LENGTH = size((4, 1024), (2, 16))
if changed("larger-batch"):
    BATCH *= 2


def main():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32064 if changed("padded-vocabulary") else 32001,
        **size({"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12,
                "num_attention_heads": 12, "num_key_value_heads": 4},
               {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
                "num_attention_heads": 2, "num_key_value_heads": 2}),
        use_cache=False,
    )  # fmt: skip
    config._attn_implementation = "sdpa" if changed("sdpa") else "eager"
    model = LlamaForCausalLM(config).to(device())
    model.train()
    if not changed("no-checkpointing"):
        model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=changed("fused-optimizer"))
    forward = torch.compile(model) if changed("compile") else model
    tokens = torch.randint(0, 32000, (8, BATCH, LENGTH + 1), device=device())
    for step in steps(size(30, 6), BATCH):
        batch = tokens[step % len(tokens)]
        with torch.autocast(device(), torch.bfloat16):
            logits = forward(input_ids=batch[:, :-1]).logits
            loss = cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    finish(loss.item())


if __name__ == "__main__":
    main()
