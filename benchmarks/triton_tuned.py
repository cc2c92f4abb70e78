# ruff: noqa: ANN001, ANN003, ANN201, ANN202
"""Triton kernels with the lists of configurations that are usual for them.

Only imported where Triton is.  `benchmarks.triton_pruning_cases` says what each is called with.
"""

import triton
import triton.language as tl


def _lists(stages, warps, **tiles):
    """All combinations of stages, warps and tiles."""
    made = [{}]
    for name, values in tiles.items():
        made = [{**each, name: value} for each in made for value in values]
    return [
        triton.Config(dict(each), num_stages=s, num_warps=w)
        for each in made
        for s in stages
        for w in warps
    ]


def _of(names, rows):
    """Configurations by tiles, stages and warps, one a row."""
    return [
        triton.Config(dict(zip(names, tiles, strict=True)), num_stages=stages, num_warps=warps)
        for tiles, stages, warps in rows
    ]


# -- a product

MATMUL = _of(
    ("BM", "BN", "BK", "GROUP"),
    [
        ((128, 256, 64, 8), 3, 8),
        ((64, 256, 32, 8), 4, 4),
        ((128, 128, 32, 8), 4, 4),
        ((128, 64, 32, 8), 4, 4),
        ((64, 128, 32, 8), 4, 4),
        ((128, 32, 32, 8), 4, 4),
        ((64, 32, 32, 8), 5, 2),
        ((32, 64, 32, 8), 5, 2),
        ((128, 256, 128, 8), 3, 8),
        ((256, 128, 128, 8), 3, 8),
        ((256, 64, 128, 8), 4, 4),
        ((64, 256, 128, 8), 4, 4),
        ((128, 128, 128, 8), 4, 4),
        ((128, 64, 64, 8), 4, 4),
        ((64, 128, 64, 8), 4, 4),
        ((128, 32, 64, 8), 4, 4),
        ((128, 128, 64, 8), 3, 8),
        ((256, 128, 64, 8), 3, 8),
        ((128, 128, 64, 8), 4, 4),
        ((64, 64, 64, 8), 4, 4),
    ],
)


@triton.jit
def matmul(
    a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    high, wide = tl.cdiv(M, BM), tl.cdiv(N, BN)
    in_group = GROUP * wide
    first = pid // in_group * GROUP
    rows = min(high - first, GROUP)
    m = first + pid % in_group % rows
    n = pid % in_group // rows
    at_m = (m * BM + tl.arange(0, BM)) % M
    at_n = (n * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    pa = a + at_m[:, None] * sam + k[None, :] * sak
    pb = b + k[:, None] * sbk + at_n[None, :] * sbn
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(0, tl.cdiv(K, BK)):
        left = K - step * BK
        ta = tl.load(pa, mask=k[None, :] < left, other=0.0)
        tb = tl.load(pb, mask=k[:, None] < left, other=0.0)
        total = tl.dot(ta, tb, total)
        pa += BK * sak
        pb += BK * sbk
    to_m, to_n = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN)
    out = c + to_m[:, None] * scm + to_n[None, :] * scn
    tl.store(out, total.to(c.dtype.element_ty), mask=(to_m[:, None] < M) & (to_n[None, :] < N))


# -- products of several sizes in one launch

GROUPED = [
    *_lists((3, 4), (4, 8), BM=[64, 128], BN=[64, 128], BK=[32, 64], PROGRAMS=[132]),
    *_lists((3,), (8,), BM=[128], BN=[128], BK=[64], PROGRAMS=[264]),
    *_lists((3,), (8,), BM=[128], BN=[256], BK=[64], PROGRAMS=[132, 264]),
]


@triton.jit
def grouped_matmul(
    a, b, c, groups, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    high, wide = tl.cdiv(M, BM), tl.cdiv(N, BN)
    tiles = high * wide
    for tile in range(tl.program_id(0), groups * tiles, PROGRAMS):
        group, inside = tile // tiles, tile % tiles
        m, n = inside // wide, inside % wide
        at_m, at_n = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN)
        k = tl.arange(0, BK)
        pa = a + group * M * K + at_m[:, None] * K + k[None, :]
        pb = b + group * K * N + k[:, None] * N + at_n[None, :]
        total = tl.zeros((BM, BN), tl.float32)
        for _ in range(0, tl.cdiv(K, BK)):
            total = tl.dot(tl.load(pa), tl.load(pb), total)
            pa += BK
            pb += BK * N
        out = c + group * M * N + at_m[:, None] * N + at_n[None, :]
        tl.store(out, total.to(c.dtype.element_ty))


# -- softmax of rows

SOFTMAX = _lists((2, 3, 4), (2, 4, 8, 16), ROWS=[1, 2])


@triton.jit
def softmax(
    x, y, rows, columns, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = tl.arange(0, BLOCK)
    inside = (row[:, None] < rows) & (at[None, :] < columns)
    places = row[:, None] * stride + at[None, :]
    held = tl.load(x + places, mask=inside, other=-float("inf")).to(tl.float32)
    held = tl.exp(held - tl.max(held, axis=1)[:, None])
    held = held / tl.sum(held, axis=1)[:, None]
    tl.store(y + places, held.to(y.dtype.element_ty), mask=inside)


# -- layer norm of rows, in passes over blocks of columns

LAYER_NORM = _lists((2, 3), (1, 2, 4, 8), BLOCK=[512, 1024, 2048, 4096])


@triton.jit
def layer_norm(x, y, w, b, columns, stride, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    y += row * stride
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        held = tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)
        held = tl.where(at < columns, held - mean, 0.0)
        squares += held * held
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        held = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        weight, shift = tl.load(w + at, mask=inside), tl.load(b + at, mask=inside)
        held = (held - mean) * scale * weight + shift
        tl.store(y + at, held.to(y.dtype.element_ty), mask=inside)


# -- attention, forward

ATTENTION = _lists((2, 3, 4), (4, 8), BM=[64, 128], BN=[32, 64, 128])


@triton.jit
def attention(
    q, k, v, o, scale, length, CAUSAL: tl.constexpr, DIM: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    block, head = tl.program_id(0), tl.program_id(1)
    base = head.to(tl.int64) * length * DIM
    m, d, n = block * BM + tl.arange(0, BM), tl.arange(0, DIM), tl.arange(0, BN)
    tq = tl.load(q + base + m[:, None] * DIM + d[None, :])
    most = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    out = tl.zeros((BM, DIM), tl.float32)
    factor = scale * 1.44269504
    end = (block + 1) * BM if CAUSAL else length
    for start in range(0, end, BN):
        at = start + n
        tk = tl.load(k + base + at[None, :] * DIM + d[:, None])
        scores = tl.dot(tq, tk) * factor
        if CAUSAL:
            scores = tl.where(m[:, None] >= at[None, :], scores, -1.0e6)
        new = tl.maximum(most, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new[:, None])
        fade = tl.exp2(most - new)
        total = total * fade + tl.sum(weights, axis=1)
        out = out * fade[:, None]
        tv = tl.load(v + base + at[:, None] * DIM + d[None, :])
        out = tl.dot(weights.to(tv.dtype), tv, out)
        most = new
    out = out / total[:, None]
    tl.store(o + base + m[:, None] * DIM + d[None, :], out.to(o.dtype.element_ty))


# -- dropout with a seed, and a residual

DROPOUT = _lists((2,), (2, 4, 8, 16), BLOCK=[256, 512, 1024, 2048, 4096, 8192])


@triton.jit
def dropout(x, residual, y, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    held = tl.load(x + at, mask=inside).to(tl.float32)
    kept = tl.rand(seed, at) > p
    held = tl.where(kept, held / (1 - p), 0.0)
    held += tl.load(residual + at, mask=inside).to(tl.float32)
    tl.store(y + at, held.to(y.dtype.element_ty), mask=inside)


# -- an elementwise function

GELU = _lists((2,), (1, 2, 4, 8), BLOCK=[256, 512, 1024, 2048, 4096, 8192])


@triton.jit
def gelu(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    held = tl.load(x + at, mask=at < n).to(tl.float32)
    held = 0.5 * held * (1 + tl.erf(held * 0.70710678))
    tl.store(y + at, held.to(y.dtype.element_ty), mask=at < n)


# -- a matrix times a vector

MATVEC = _lists((2,), (2, 4, 8), BM=[1, 4, 16, 64], BK=[256, 512])


@triton.jit
def matvec(a, x, y, M, K, BM: tl.constexpr, BK: tl.constexpr):
    m, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BK)
    total = tl.zeros((BM, BK), tl.float32)
    for start in range(0, K, BK):
        at = start + k
        rows = tl.load(a + m[:, None] * K + at[None, :], mask=(m[:, None] < M) & (at[None, :] < K),
                       other=0.0)  # fmt: skip
        total += (
            rows.to(tl.float32) * tl.load(x + at, mask=at < K, other=0.0).to(tl.float32)[None, :]
        )
    tl.store(y + m, tl.sum(total, axis=1).to(y.dtype.element_ty), mask=m < M)
