"""Triton kernels whose programs in Triton's intermediate form are stored in `tests/data/triton`.

triton_kernels.py FOLDER     compiles each of them, which needs no GPU, and stores its text there
"""

from __future__ import annotations

import sys
from pathlib import Path

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    held = tl.load(x + row * stride + at, mask=inside, other=-float("inf"))
    e = tl.exp(held - tl.max(held, 0))
    tl.store(out + row * stride + at, e / tl.sum(e, 0), mask=inside)


@triton.jit
def matmul(
    a,
    b,
    c,
    M,
    N,
    K,
    sam,
    sak,
    sbk,
    sbn,
    scm,
    scn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    pa = a + m[:, None] * sam + k[None, :] * sak
    pb = b + k[:, None] * sbk + n[None, :] * sbn
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        left = tl.load(pa, mask=k[None, :] < K - i * BK, other=0.0)
        right = tl.load(pb, mask=k[:, None] < K - i * BK, other=0.0)
        acc = tl.dot(left, right, acc)
        pa += BK * sak
        pb += BK * sbk
    tl.store(
        c + m[:, None] * scm + n[None, :] * scn,
        acc.to(tl.float16),
        mask=(m[:, None] < M) & (n[None, :] < N),
    )


@triton.jit
def layer_norm(x, weight, out, mean, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    out += row * stride
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)
    m = tl.sum(total, 0) / columns
    tl.store(mean + row, m)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(weight + at, mask=inside).to(tl.float32)
        tl.store(out + at, (v - m) * w, mask=inside)


@triton.jit
def histogram(x, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts + tl.load(x + at, mask=at < n, other=0), 1, mask=at < n)


@triton.jit
def gather(table, index, out, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    source = tl.load(index + row)
    tl.store(
        out + row * width + at,
        tl.load(table + source * width + at, mask=at < width),
        mask=at < width,
    )


@triton.jit(noinline=True)
def fetch(x, row, out):
    tl.atomic_max(out + row, tl.load(x + row))
    return tl.load(x + row)


@triton.jit(noinline=True)
def shifted(x, by):
    return x + by


@triton.jit
def helped(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = shifted(out, tl.program_id(0) * BLOCK)
    tl.store(
        there + tl.arange(0, BLOCK),
        fetch(x, tl.program_id(0), out) + tl.zeros([BLOCK], tl.float32),
        mask=at < n,
    )


@triton.jit
def described(x, out, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    given = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [BM, BN])
    made = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    made.store([m, n], given.load([m, n]) * 2)


@triton.jit
def host_described(x, out, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    out.store([m, n], x.load([m, n]) * 2)


@triton.jit
def block_pointers(x, out, rows, columns, stride, BM: tl.constexpr, BN: tl.constexpr):
    given = tl.make_block_ptr(
        x, (rows, columns), (stride, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0)
    )
    made = tl.make_block_ptr(
        out, (rows, columns), (stride, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0)
    )
    for _ in range(0, columns, BN):
        tl.store(made, tl.load(given, boundary_check=(0, 1)) + 1, boundary_check=(0, 1))
        given = tl.advance(given, (0, BN))
        made = tl.advance(made, (0, BN))


@triton.jit
def chosen(x, y, out, n, which, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    source = x + at if which > 0 else y + at + 1
    held = tl.load(source, mask=at < n)
    i = 0
    while i < which:
        held += tl.load(x + i)
        i += 1
    tl.store(out + at, held, mask=at < n)
    if which == 3:
        return
    tl.store(out + at + n, held, mask=at < n)


@triton.jit
def pointers(table, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(out + at, tl.load(x + at))


@triton.jit
def attention(q, k, v, out, n, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    base = tl.program_id(1) * n * D
    held = tl.load(q + base + m[:, None] * D + d[None, :])
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BM, BN):
        at = start + tl.arange(0, BN)
        kk = tl.load(k + base + at[None, :] * D + d[:, None])
        vv = tl.load(v + base + at[:, None] * D + d[None, :])
        s = tl.dot(held, kk)
        acc = tl.dot(s.to(tl.float16), vv, acc)
    tl.store(out + base + m[:, None] * D + d[None, :], acc.to(tl.float16))


@triton.jit
def persistent(
    a, b, c, M, N, K, P: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for t in tl.range(tl.program_id(0), tiles, P, flatten=True):
        m = (t // tl.cdiv(N, BN)) * BM + tl.arange(0, BM)
        n = (t % tl.cdiv(N, BN)) * BN + tl.arange(0, BN)
        k = tl.arange(0, BK)
        acc = tl.zeros((BM, BN), tl.float32)
        for i in range(tl.cdiv(K, BK)):
            acc = tl.dot(
                tl.load(a + m[:, None] * K + k[None, :] + i * BK),
                tl.load(b + (k[:, None] + i * BK) * N + n[None, :]),
                acc,
            )
        tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.float16))


@triton.jit
def biased(x, bias, out, n, with_bias, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if tl.program_id(0) * BLOCK >= n:
        return
    held = tl.load(x + at, mask=at < n)
    if with_bias == 3:
        held += tl.load(bias + at, mask=at < n)
    tl.store(out + at, held, mask=at < n)


@triton.jit
def grouped(
    a, b, c, M, N, K, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    tl.assume(M > 0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    at = tl.program_id(0)
    first = at // (G * columns) * G
    size = min(rows - first, G)
    m = (first + at % (G * columns) % size) * BM + tl.arange(0, BM)
    n = at % (G * columns) // size * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    begin = tl.multiple_of(tl.program_id(1) * K, BK)
    for i in range(begin, begin + K, BK):
        left = tl.load(a + m[:, None] * 2 * K + k[None, :] + i)
        acc = tl.dot(left, tl.load(b + (k[:, None] + i) * N + n[None, :]), acc)
    tl.debug_barrier()
    tl.atomic_add(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def scaled(a, b, sa, sb, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    g = tl.arange(0, BK // 32)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + k[None, :] + i)
        y = tl.load(b + (k[:, None] + i) * BN + n[None, :])
        sx = tl.load(sa + m[:, None] * (K // 32) + g[None, :] + i // 32)
        sy = tl.load(sb + n[:, None] * (K // 32) + g[None, :] + i // 32)
        acc = tl.dot_scaled(x, sx, "e5m2", y, sy, "e5m2", acc)
    tl.store(c + m[:, None] * BN + n[None, :], acc)


F32, F16, INT, LONG = "*fp32", "*fp16", "i32", "*i64"
DESCRIBED = "tensordesc<fp32[64, 64]>"
BLOCKS = {"BM": 64, "BN": 64}
TEXTS = {
    add: ((F32, F32, F32, INT), {"BLOCK": 1024}),
    softmax: ((F32, F32, INT, INT), {"BLOCK": 1024}),
    matmul: (
        (F16, F16, F16, INT, INT, INT, INT, 1, INT, 1, INT, 1),
        {"BM": 128, "BN": 128, "BK": 64},
    ),
    layer_norm: ((F16, F16, F16, F32, INT, INT, "fp32"), {"BLOCK": 1024}),
    histogram: (("*i32", "*i32", INT), {"BLOCK": 256}),
    gather: ((F16, LONG, F16, INT), {"BLOCK": 256}),
    helped: ((F32, F32, INT), {"BLOCK": 256}),
    described: ((F32, F32, INT, INT), BLOCKS),
    host_described: ((DESCRIBED, DESCRIBED), BLOCKS),
    block_pointers: ((F32, F32, INT, INT, INT), BLOCKS),
    chosen: ((F32, F32, F32, INT, INT), {"BLOCK": 256}),
    biased: ((F32, F32, F32, INT, INT), {"BLOCK": 256}),
    grouped: ((F16, F16, F32, INT, INT, INT), {"G": 8, "BM": 128, "BN": 128, "BK": 64}),
    scaled: (("*fp8e5", "*fp8e5", "*u8", "*u8", F32, INT), {"BM": 128, "BN": 128, "BK": 128}),
    pointers: ((LONG, F32, INT), {"BLOCK": 256}),
    attention: ((F16, F16, F16, F16, INT), {"BM": 64, "BN": 64, "D": 64}),
    persistent: ((F16, F16, F16, INT, INT, INT), {"P": 132, "BM": 128, "BN": 128, "BK": 64}),
}
"""Types of each kernel's arguments, with numbers for constants, and its constants by name."""


def text(kernel, types, constants):
    """Compile a kernel for an H100."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = kernel.arg_names
    signature = {name: "constexpr" for name in names}
    signature |= {n: kind for n, kind in zip(names, types) if isinstance(kind, str)}
    held = constants | {n: kind for n, kind in zip(names, types) if isinstance(kind, int)}
    source = ASTSource(
        kernel,
        signature,
        {(names.index(name),): value for name, value in held.items()},
        {(at,): [["tt.divisibility", 16]] for at, kind in enumerate(types) if kind in (F32, F16)},
    )
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    return made.asm["ttir"].replace(__file__, Path(__file__).name)


if __name__ == "__main__":
    for kernel, (types, constants) in TEXTS.items():
        path = Path(sys.argv[1], f"{kernel.__name__}.ttir")
        path.write_text(text(kernel, types, constants))
