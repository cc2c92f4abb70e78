# ruff: noqa: ANN001, ANN201, D103
"""A gate on one qubit of a quantum state: two by two complex numbers on pairs of amplitudes."""

import torch
import triton
import triton.language as tl


@triton.jit
def qubit_gate_kernel(state_ptr, gate_ptr, out_ptr, N, apart: tl.constexpr, block: tl.constexpr):
    pair = tl.program_id(0) * block + tl.arange(0, block)
    low = pair // apart * (2 * apart) + pair % apart
    real = low < N
    a = tl.load(state_ptr + low, mask=real, other=0.0)
    b = tl.load(state_ptr + N + low, mask=real, other=0.0)
    c = tl.load(state_ptr + low + apart, mask=real, other=0.0)
    d = tl.load(state_ptr + N + low + apart, mask=real, other=0.0)
    for row in tl.static_range(2):
        p = tl.load(gate_ptr + row * 4)
        q = tl.load(gate_ptr + row * 4 + 1)
        r = tl.load(gate_ptr + row * 4 + 2)
        s = tl.load(gate_ptr + row * 4 + 3)
        place = out_ptr + low + row * apart
        tl.store(place, p * a - q * b + r * c - s * d, mask=real)
        tl.store(place + N, p * b + q * a + r * d + s * c, mask=real)


def run(state, gate):
    N = state.shape[1]
    out = torch.empty_like(state)
    apart, block = 4096, 1024
    qubit_gate_kernel[(triton.cdiv(N // 2, block),)](state, gate, out, N, apart, block, num_warps=4)
    return out
