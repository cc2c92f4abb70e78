"""Mamba-2's scan over chunks: what the states before a chunk and the steps inside it give.

For step i of a chunk, with `decay` the sum of its logarithms of decays from the chunk's beginning:

    Y_i = exp(decay_i) · C_i · State  +  Σ_{k ≤ i} (C_i · B_k) · exp(decay_i − decay_k) · dt_k · X_k
          +  D · X_i

The products C · B and the states are given, as by the kernels before this one in `mamba_ssm`.
"""

import math

import ml_dtypes
import numpy as np

import tileprof
import tileprof.lang as T

LOG2E = 1.4426950408889634


@tileprof.jit
def chunk_scan(
    CB, X, Dt, Decay, C, States, D, block_M=128, block_K=128, near=8, stages=2, threads: int = 256
):
    """As `_chunk_scan_fwd` of `mamba_ssm`; `States[:, c]` is the state before chunk c.  A block
    takes up to `near` heads of a group in turn: they share its tiles of C and C · B."""
    batch, chunks, groups, size = T.const("batch, chunks, groups, size")
    length, heads, width, state = T.const("length, heads, width, state")
    CB: T.Tensor((batch, chunks, groups, size, size), T.bfloat16)
    X: T.Tensor((batch, length, heads, width), T.bfloat16)
    Dt: T.Tensor((batch, heads, chunks, size), T.float32)
    Decay: T.Tensor((batch, heads, chunks, size), T.float32)
    C: T.Tensor((batch, length, groups, state), T.bfloat16)
    States: T.Tensor((batch, chunks, heads, width, state), T.bfloat16)
    D: T.Tensor((heads,), T.float32)
    Y = T.empty((batch, length, heads, width), T.bfloat16)
    parts = size // block_M
    share = math.gcd(near, heads // groups)

    with T.Kernel(parts, heads // share, batch * chunks, threads=threads) as (bx, by, bz):
        C_shared = T.alloc_shared((block_M, state), T.bfloat16)
        CB_shared = T.alloc_shared((block_M, size), T.bfloat16)
        State_shared = T.alloc_shared((width, state), T.bfloat16)
        X_shared = T.alloc_shared((block_K, width), T.bfloat16)
        Own_shared = T.alloc_shared((block_M, width), T.bfloat16)
        decay = T.alloc_shared((size,), T.float32)
        dt = T.alloc_shared((size,), T.float32)
        shift = T.alloc_shared((size,), T.float32)
        weights = T.alloc_fragment((block_M, block_K), T.bfloat16)
        result = T.alloc_fragment((block_M, width), T.float32)
        b, chunk = bz // chunks, bz % chunks
        m = (parts - 1 - bx) * block_M  # blocks with the most steps come first
        group = by * share // (heads // groups)
        row = chunk * size + m

        T.copy(C[b, row : row + block_M, group, :], C_shared)
        T.copy(CB[b, chunk, group, m : m + block_M, :], CB_shared)
        for each in T.serial(share):
            head = by * share + each
            T.copy(Decay[b, head, chunk, :], decay)
            T.copy(Dt[b, head, chunk, :], dt)
            T.copy(States[b, chunk, head, :, :], State_shared)
            T.copy(X[b, row : row + block_M, head, :], Own_shared)
            for k in T.Parallel(size):
                shift[k] = T.log2(dt[k]) - decay[k] * LOG2E
            T.gemm(C_shared, State_shared, result, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_M, width):
                result[i, j] *= T.__exp2(decay[m + i] * LOG2E)
            for k in T.Pipelined(T.ceildiv(m + block_M, block_K), num_stages=stages):
                rows = slice(chunk * size + k * block_K, chunk * size + (k + 1) * block_K)
                T.copy(X[b, rows, head, :], X_shared)
                for i, j in T.Parallel(block_M, block_K):
                    at = k * block_K + j
                    weight = T.__exp2(decay[m + i] * LOG2E + shift[at])  # of step `at`, times dt
                    weight *= T.float32(CB_shared[i, at])
                    weights[i, j] = T.if_then_else(at <= m + i, weight, 0)
                T.gemm(weights, X_shared, result)
            for i, j in T.Parallel(block_M, width):
                result[i, j] += D[head] * T.float32(Own_shared[i, j])
            T.copy(result, Y[b, row : row + block_M, head, :])
    return Y


def reference(cb, x, dt, decay, c, states, d) -> np.ndarray:
    """In float64; decay grows by what is at most 0."""
    cb, x, dt, decay, c, states, d = (
        np.asarray(v, np.float64) for v in (cb, x, dt, decay, c, states, d)
    )
    batch, chunks, groups, size, _ = cb.shape
    ratio = x.shape[2] // groups
    x = x.reshape(batch, chunks, size, *x.shape[2:])
    c = np.repeat(c.reshape(batch, chunks, size, *c.shape[2:]), ratio, axis=3)
    cb = np.repeat(cb, ratio, axis=2)
    decay, dt = decay.transpose(0, 2, 1, 3), dt.transpose(0, 2, 1, 3)  # batch, chunk, head, step
    with np.errstate(over="ignore", invalid="ignore"):
        inside = cb * np.exp(decay[..., None] - decay[..., None, :]) * dt[..., None, :]
    inside = np.where(np.tril(np.ones((size, size), bool)), inside, 0)
    y = np.einsum("bchik,bckhp->bcihp", inside, x)
    before = np.einsum("bcihn,bchpn->bcihp", c, states)
    y += before * np.exp(decay).transpose(0, 1, 3, 2)[..., None] + d[:, None] * x
    return y.reshape(batch, chunks * size, *x.shape[3:])


def inputs(batch, chunks, size, groups, heads, width, state, seed: int = 0) -> list[np.ndarray]:
    """Random arguments of the kernel."""
    generator = np.random.default_rng(seed)
    length = chunks * size

    def normal(*shape):
        return generator.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16)

    dt = generator.uniform(0.1, 1, (batch, heads, chunks, size)).astype(np.float32)
    decay = np.cumsum(-0.1 * dt, axis=-1, dtype=np.float32)
    return [
        normal(batch, chunks, groups, size, size), normal(batch, length, heads, width), dt, decay,
        normal(batch, length, groups, state), normal(batch, chunks, heads, width, state),
        generator.standard_normal(heads, np.float32),
    ]  # fmt: skip


def main(batch: int = 1, chunks: int = 2, size: int = 256, heads: int = 4) -> None:
    given = inputs(batch, chunks, size, 1, heads, 64, 128)
    expected = reference(*given)
    found = chunk_scan(*given).astype(np.float32)
    assert np.linalg.norm(found - expected) < 1e-2 * np.linalg.norm(expected)
    print(f"chunk_scan {batch}×{chunks * size}×{heads}: agrees with NumPy")


if __name__ == "__main__":
    main()
