# ruff: noqa: ANN001, ANN201, D103
"""How alike molecules are: bits of two fingerprints that both have, by those that either has."""

import torch
import triton
import triton.language as tl


@triton.jit
def tanimoto_kernel(
    x_ptr, y_ptr, x_count_ptr, y_count_ptr, out_ptr, M, N, words,
    rows: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(1) * rows + tl.arange(0, rows)
    j = tl.program_id(0) * columns + tl.arange(0, columns)
    both = tl.zeros((rows, columns), dtype=tl.int32)
    for word in range(0, words):
        x = tl.load(x_ptr + word * M + i, mask=i < M, other=0)
        y = tl.load(y_ptr + word * N + j, mask=j < N, other=0)
        bits = (x[:, None] & y[None, :]).to(tl.uint32)
        bits = bits - ((bits >> 1) & 1431655765)
        bits = (bits & 858993459) + ((bits >> 2) & 858993459)
        bits = (bits + (bits >> 4)) & 252645135
        both += ((bits * 16843009) >> 24).to(tl.int32)
    one = tl.load(x_count_ptr + i, mask=i < M, other=1)
    other = tl.load(y_count_ptr + j, mask=j < N, other=1)
    either = one[:, None] + other[None, :] - both
    alike = both.to(tl.float32) / tl.maximum(either, 1).to(tl.float32)
    place = out_ptr + i[:, None] * N + j[None, :]
    tl.store(place, alike, mask=(i[:, None] < M) & (j[None, :] < N))


def run(x, y, x_count, y_count):
    (words, M), N = x.shape, y.shape[1]
    out = torch.empty((M, N), device=x.device, dtype=torch.float32)
    rows, columns = 32, 64
    tanimoto_kernel[(triton.cdiv(N, columns), triton.cdiv(M, rows))](
        x, y, x_count, y_count, out, M, N, words, rows, columns, num_warps=4
    )
    return out
