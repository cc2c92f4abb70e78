"""Text generated greedily by a Llama of 16 layers, in bf16: 48 tokens for each of 4 prompts."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from stepping import changed, device, finish, size, steps

BATCH, PROMPT, NEW = size((4, 128, 48), (2, 8, 4))
if changed("larger-batch"):
    BATCH *= 4


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    config = LlamaConfig(
        **size({"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 16,
                "num_attention_heads": 16, "num_key_value_heads": 4},
               {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
                "num_attention_heads": 2}),
        pad_token_id=0, eos_token_id=None, bos_token_id=1,
    )  # fmt: skip
    config._attn_implementation = "sdpa" if changed("sdpa") else "eager"
    model = LlamaForCausalLM(config).to(device(), torch.bfloat16).eval()
    prompts = torch.randint(2, 32000, (8, BATCH, PROMPT), device=device())
    options = {"cache_implementation": "static"} if changed("static-cache") else {}
    for step in steps(size(9, 3), BATCH * NEW):
        ids = prompts[step % len(prompts)]
        out = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False,
            min_new_tokens=NEW, max_new_tokens=NEW, **options,
        )  # fmt: skip
    # How likely the model finds what it wrote: a wrong cache would write other words.
    chances = model(out).logits[:, PROMPT - 1 : -1].float().log_softmax(-1)
    finish(chances.gather(-1, out[:, PROMPT:, None]).mean().item())


if __name__ == "__main__":
    main()
