"""Embeddings of a corpus by a small BERT (6 layers of 384), mean pooling, in fp32."""

import torch
from transformers import BertConfig, BertModel

from stepping import changed, device, finish, size, steps

BATCH, LONGEST = size((32, 256), (4, 16))
if changed("larger-batch"):
    BATCH *= 4
if changed("tf32"):
    torch.set_float32_matmul_precision("high")


def corpus(count):
    """Sentences of many lengths, most of them short."""
    lengths = (torch.rand(count) ** 3 * (LONGEST - 4)).long() + 4
    return [torch.randint(1000, 30000, (int(length),)) for length in lengths]


def padded(sentences):
    """One batch of ids and its mask."""
    longest = max(len(each) for each in sentences) if changed("less-padding") else LONGEST
    ids = torch.zeros(len(sentences), longest, dtype=torch.long)
    for row, each in zip(ids, sentences):
        row[: len(each)] = each
    return ids, (ids != 0).long()


@torch.no_grad()
def main():
    torch.manual_seed(0)
    small = {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 12,
             "intermediate_size": 1536}  # fmt: skip
    model = BertModel(BertConfig(**size(small, {**small, "num_hidden_layers": 2})))
    model = model.to(device()).eval()
    if changed("half"):
        model = model.to(torch.bfloat16)
    if changed("compile"):
        model = torch.compile(model)
    sentences = corpus(BATCH * 64)
    if changed("less-padding"):
        sentences.sort(key=len)
    found = []
    for step in steps(size(90, 6), BATCH):
        at = step * BATCH % len(sentences)
        ids, mask = padded(sentences[at : at + BATCH])
        ids, mask = ids.to(device()), mask.to(device())
        hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * weights).sum(1) / weights.sum(1)
        pooled = torch.nn.functional.normalize(pooled, dim=-1)
        found.append(pooled if changed("no-item") else pooled.cpu())
        del found[:-64]
    finish(found[-1].float().abs().mean().item())


if __name__ == "__main__":
    main()
