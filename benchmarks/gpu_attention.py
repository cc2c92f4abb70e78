"""Kernels of attention and what goes with it beside cuDNN, FlashAttention-2, TileLang, Triton and
PyTorch's grouped product; ours in the fastest of a few tilings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gpu_peers import LIMIT, TILELANG, Call, Spec, WrongResult, normal, usable
from measuring import Work, alone, compare, fastest
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

sys.path.insert(0, str(Path(__file__).parents[1]))

import tileprof
from case_studies import (
    attention,
    attention_backward,
    chunk_scan,
    fp8_attention,
    grouped_matmul,
    mla_decode,
    paged_attention,
)

__all__ = ["attention_groups"]

HEADS, DIM = 16, 128
WEIGHTS = 6e-3
"""Limit of the relative error where weights are rounded to bfloat16 between two products."""
BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FlashAttn-2": SDPBackend.FLASH_ATTENTION}
EXACT = "PyTorch"
"""Whose results are compared with: FlashAttention-2, or plain products where it refuses."""
TILINGS: tuple[dict[str, int], ...] = (
    {"block_N": 128, "stages": 2}, {"block_N": 160, "stages": 2}, {"block_N": 176, "stages": 2},
    {"block_N": 96, "stages": 2}, {"block_N": 64, "stages": 3},
)  # fmt: skip
SCHEDULES: tuple[dict[str, Any], ...] = (
    {"ping_pong": False}, {"overlap": False, "ping_pong": False}, {"late_sums": False},
    {"tile_order": "static"}, {"persistent": False},
    {"overlap": False, "ping_pong": False, "late_sums": False, "peel": False, "persistent": False},
)  # fmt: skip
"""Controls that leave out a step of what the compiler finds, one by one, and all of them."""
Measure = Callable[[], Iterator[Work]]


def attention_groups(quick: bool) -> Iterator[tuple[str, Measure, tuple[Spec, ...]]]:
    """Names, what measures them, and the kernels of TileLang that they need."""
    sizes = ((4, 4096),) if quick else ((4, 4096), (1, 16384))
    modes = [(b, n, causal) for b, n in sizes for causal in (False, True)]
    for b, n, causal in modes:
        name = f"attention forward {n} {'causal' if causal else 'full'}"
        yield name, partial(forward, b, n, causal), forward_peers(b, n, causal)
    for b, n, causal in modes:
        name = f"attention backward {n} {'causal' if causal else 'full'}"
        yield name, partial(backward, b, n, causal), ()
    for b, n, causal in modes:
        name = f"attention fp8 {n} {'causal' if causal else 'full'}"
        yield name, partial(forward_float8, b, n, causal), ()
    yield "attention MLA decode", latent, (MLA_PEER,)
    yield "attention decode", decode, ()
    yield "attention chunk scan", scan, ()
    for experts in (8, 16, 64):
        yield f"attention grouped {experts}", partial(grouped, experts), ()


def measured(
    work: Work, ours: Mapping[str, Call], peers: Mapping[str, Call], expected: Any, limit: float
) -> Work:
    """The fastest of ours that is right beside all peers that run and are right; what is wrong with
    the others is in the note."""
    problems: list[str] = []
    right = usable(dict(ours), expected, limit, problems)
    others = usable(dict(peers), expected, limit, problems)
    if not right:
        raise WrongResult("; ".join(problems))
    work.ways = alone(right)
    best = next(iter(work.ways))
    work.note = "; ".join([best, *problems])
    work.results = compare(right[best], others)
    if not others:
        took = min(_batch(right[best]) for _ in range(5))
        work.note = f"no peer: {work.rate(took):.0f} {work.unit}; {work.note}"
    return work


def _batch(call: Call) -> float:
    from measuring import batch_ms

    return batch_ms(call, 5)


def sdpa(backend: str, *given: torch.Tensor, causal: bool = False, **more: Any) -> torch.Tensor:
    """PyTorch's attention of tensors (batch, length, heads, dim)."""
    q, k, v = (x.transpose(1, 2) for x in given)
    chosen = BACKENDS.get(backend, [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])
    with sdpa_kernel(chosen):
        return scaled_dot_product_attention(q, k, v, is_causal=causal, **more).transpose(1, 2)


def shown(options: Mapping[str, object]) -> str:
    """`block_N 128, stages 2`."""
    return ", ".join(f"{name} {value}" for name, value in options.items())


# -- forward


def forward_peers(batch: int, length: int, causal: bool) -> tuple[Spec, ...]:
    """TileLang's kernels: tiles, stages and threads."""
    tilings = (((128, 128), 2, 256), ((128, 128), 1, 128), ((64, 64), 2, 128))
    return tuple(
        ("attention_forward", batch, length, HEADS, DIM, causal, *tiling) for tiling in tilings
    )


def forward(batch: int, length: int, causal: bool) -> Iterator[Work]:
    """Scores and values of all queries."""
    q, k, v = (normal(batch, length, HEADS, DIM) for _ in range(3))
    out = torch.empty_like(q)

    def ours(options: dict[str, int]) -> torch.Tensor:
        return attention.attention(q, k, v, causal=causal, **options)[0]  # type: ignore[no-any-return]

    def theirs(spec: Spec) -> torch.Tensor:
        TILELANG[spec](q, k, v, out)
        return out

    expected = sdpa(EXACT, q, k, v, causal=causal)
    peers: dict[str, Call] = {n: partial(sdpa, n, q, k, v, causal=causal) for n in BACKENDS}
    found = {str(s[6:]): partial(theirs, s) for s in forward_peers(batch, length, causal)
             if s in TILELANG}  # fmt: skip
    if found := usable(found, expected, WEIGHTS, []):
        peers["TileLang"] = found[fastest(found)]
    amount = 4.0 * batch * HEADS * length**2 * DIM / (2 if causal else 1)
    asked, aim = (0.88, 1.02) if causal else (0.92, 1.03)
    name = f"attention d{DIM} {length} {'causal' if causal else 'full'}"
    work = Work(name, amount, "TFLOP/s", asked, aim)
    ways: dict[str, Call] = {shown(o): partial(ours, o) for o in TILINGS}
    for controls in SCHEDULES:
        held = tileprof.jit(attention.attention.function, controls=controls)
        ways[shown(controls)] = partial(_first, partial(held, q, k, v, causal=causal))
    yield measured(work, ways, peers, expected, WEIGHTS)


_THREE_GROUPS: dict[str, Any] = {"block_M": 192, "block_N": 96, "threads": 384, "stages": 3}
"""While two groups multiply or wait, the third has exponentials."""
FLOAT8_TILINGS: tuple[dict[str, Any], ...] = (
    {"block_N": 128, "stages": 2}, {"block_N": 192, "stages": 2}, {"block_N": 160, "stages": 2},
    _THREE_GROUPS, {"block_N": 192, "stages": 2, "sums": 1},
)  # fmt: skip
FLOAT8_SCHEDULES: tuple[tuple[dict[str, Any], tuple[dict[str, Any], ...]], ...] = (
    # The fastest at all sizes on 2026-11-29, at 192.
    ({"ping_pong": False}, ({"block_N": 128}, {"block_N": 192}, _THREE_GROUPS,
                            {"block_N": 192, "halves": True})),
    ({"overlap": True}, ({"block_N": 192}, _THREE_GROUPS)),
    ({"overlap": False, "ping_pong": False}, ({"block_N": 192}, _THREE_GROUPS)),
    # Each group gets its scores before the next one begins to multiply.
    ({"overlap": True, "hand_over": "complete"}, (
        {"block_N": 192}, {"block_N": 192, "halves": True}, {"block_N": 160, "halves": True},
        {"block_N": 224}, {"block_N": 192, "sums": 1},
        _THREE_GROUPS, {**_THREE_GROUPS, "halves": True})),
    ({"hand_over": "complete"}, ({"block_N": 192}, _THREE_GROUPS)),
)  # fmt: skip
"""Lowering controls, and the tilings with which they are tried."""


def by_head(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rounded to e4m3 with a scale for each head: that, and the scales, of (batch, heads)."""
    scales = x.float().abs().amax(dim=(1, 3)).clamp_min(1e-12) / 448
    return (x / scales[:, None, :, None]).to(torch.float8_e4m3fn), scales


def forward_float8(batch: int, length: int, causal: bool) -> Iterator[Work]:
    """Yield forward attention in float8_e4m3, in several tilings, beside our fastest one in
    bfloat16 on the same numbers."""
    made = [by_head(normal(batch, length, HEADS, DIM)) for _ in range(3)]
    q, k, v = ((x.float() * s[:, None, :, None]).to(torch.bfloat16) for x, s in made)
    (q8, q_scales), (k8, k_scales), (v8, v_scales) = made
    vt = v8.permute(0, 2, 3, 1).contiguous()
    given = (q8, k8, vt, q_scales, k_scales, v_scales)

    def wide(options: dict[str, int]) -> torch.Tensor:
        return attention.attention(q, k, v, causal=causal, **options)[0]  # type: ignore[no-any-return]

    expected, limit = sdpa(EXACT, q, k, v, causal=causal), fp8_attention.LIMIT
    found = usable({shown(o): partial(wide, o) for o in TILINGS}, expected, WEIGHTS, [])
    peers: dict[str, Call] = {"ours in bfloat16": found[fastest(found)]} if found else {}
    amount = 4.0 * batch * HEADS * length**2 * DIM / (2 if causal else 1)
    name = f"attention fp8 d{DIM} {length} {'causal' if causal else 'full'}"
    work = Work(name, amount, "TFLOP/s", 1.3, 1.5)
    kernel = fp8_attention.fp8_attention
    ways: dict[str, Call] = {
        shown(o): partial(kernel, *given, causal=causal, **o) for o in FLOAT8_TILINGS
    }
    for controls, tilings in FLOAT8_SCHEDULES:
        held = tileprof.jit(kernel.function, controls=controls)
        for options in tilings:
            name = shown({**options, **controls})
            ways[name] = partial(held, *given, causal=causal, **options)
    yield measured(work, ways, peers, expected, limit)


def _first(call: Callable[[], Any]) -> torch.Tensor:
    """The first of several results."""
    return call()[0]  # type: ignore[no-any-return]


# -- backward


def backward(batch: int, length: int, causal: bool) -> Iterator[Work]:
    """All three gradients; all five products of a pair of tiles are counted."""
    given = [normal(batch, length, HEADS, DIM) for _ in range(3)]
    d_out = normal(batch, length, HEADS, DIM)
    out, lse = attention.attention(*given, causal=causal)
    sums = torch.empty(batch, length, HEADS, DIM, device=d_out.device, dtype=torch.float32)

    whole = attention_backward.attention_backward
    in_order = tileprof.jit(whole.function, controls={"overlap": False})

    def ours(kernel: Any, options: dict[str, int]) -> torch.Tensor:
        delta = attention_backward.row_dots(out, d_out, sums)
        dk, dv = kernel(*given, d_out, lse, delta, sums, causal=causal, **options)
        dq = attention_backward.rounded(sums.view(-1, DIM)).view(d_out.shape)
        return _together(dq, dk, dv)

    def peer(backend: str) -> Call:
        leaves = [x.detach().clone().requires_grad_() for x in given]
        result = sdpa(backend, *leaves, causal=causal)
        return lambda: _together(*torch.autograd.grad(result, leaves, d_out, retain_graph=True))

    peers = {}
    for name in BACKENDS:
        try:
            peers[name] = peer(name)
        except Exception as error:
            print(f"{name}: {error}"[:200])
    expected = peer(EXACT)()
    amount = 10.0 * batch * HEADS * length**2 * DIM / (2 if causal else 1)
    name = f"attention backward {length} {'causal' if causal else 'full'}"
    work = Work(name, amount, "TFLOP/s", 0.85, 1.0)
    ways: dict[str, Call] = {
        shown(o): partial(ours, whole, o) for o in ({"stages": 2}, {"stages": 1})
    }
    ways["stages 2, overlap False"] = partial(ours, in_order, {"stages": 2})
    yield measured(work, ways, peers, expected, WEIGHTS)


class _Three(tuple):  # type: ignore[type-arg]
    """Gradients that are compared as one tensor, and put together only then."""

    def double(self) -> torch.Tensor:
        """All of them, one behind the other."""
        return torch.cat([x.double().flatten() for x in self])


def _together(*gradients: torch.Tensor) -> Any:
    return _Three(gradients)


# -- decoding

RANK, ROPE = 512, 64
MLA_PEER: Spec = ("mla_decode", 132, 128, 8192, RANK, ROPE)


def latent(batch: int = 132, heads: int = 128, keys: int = 8192) -> Iterator[Work]:
    """Decoding with multi-head latent attention."""
    q, q_rope = normal(batch, heads, RANK), normal(batch, heads, ROPE)
    kv, k_rope = normal(batch, keys, RANK), normal(batch, keys, ROPE)
    out = torch.empty_like(q)

    def theirs() -> torch.Tensor:
        TILELANG[MLA_PEER](q, q_rope, kv, k_rope, out)
        return out

    expected = torch.empty_like(q)
    for b in range(batch):
        scores = (q[b] @ kv[b].t()).float() + (q_rope[b] @ k_rope[b].t()).float()
        expected[b] = torch.softmax(scores * 192**-0.5, -1).to(q.dtype) @ kv[b]
    amount = 2.0 * batch * heads * keys * (2 * RANK + ROPE)
    work = Work(f"MLA decode {batch}×{heads}×{keys}", amount, "TFLOP/s", 1.0, 1.3)
    ways: dict[str, Call] = {
        f"splits {s}": partial(mla_decode.mla_decode, q, q_rope, kv, k_rope, splits=s)
        for s in (1, 2, 4)
    }
    peers = {"TileLang": theirs} if MLA_PEER in TILELANG else {}
    # Scores of the reference are rounded before softmax.
    yield measured(work, ways, peers, expected, 2e-2)


def decode(
    batch: int = 64, heads: int = 32, groups: int = 4, keys: int = 8192, size: int = 64
) -> Iterator[Work]:
    """A token a sequence over all keys; ours finds them in pages, the peers' lie in one piece."""
    q = normal(batch, 1, heads, DIM)
    k, v = (normal(batch, keys, groups, DIM) for _ in range(2))
    pages = (batch * keys // size, size, groups, DIM)
    table = torch.arange(pages[0], device=q.device, dtype=torch.int32).view(batch, -1)
    lengths = torch.full((batch,), keys, device=q.device, dtype=torch.int32)

    rows = (pages[0], size * groups, DIM)
    kept = {"keep": "evict_first"}

    def called(kernel: Any, shape: tuple[int, ...], **options: Any) -> Call:
        given = (q[:, 0], k.view(shape), v.view(shape), table, lengths)
        return partial(kernel, *given, **options, **kept)

    def peer(backend: str) -> torch.Tensor:
        return sdpa(backend, q, k, v, enable_gqa=True)[:, 0]

    by_head, whole = paged_attention.paged_attention, paged_attention.paged_attention_whole
    once = tileprof.jit(by_head.function, controls={"persistent": False})
    early = tileprof.jit(whole.function, controls={"early_launch": True})
    expected = peer(EXACT)
    work = Work(f"decode {batch}×{heads}/{groups}×{keys}", 4.0 * k.numel(), "GB/s", 0.95, 1.0)
    ways: dict[str, Call] = {}
    for stages in (2, 3):
        depth: dict[str, Any] = {"stages": stages}
        name = shown(depth)
        ways[f"a head of keys, {name}"] = called(by_head, pages, splits=1, **depth)
        ways[f"a head of keys, {name}, not persistent"] = called(once, pages, splits=1, **depth)
    parts: dict[str, Any] = {"splits": 2, "stages": 2, "rows": 64, "groups": groups}
    ways["all heads of keys, splits 2"] = called(whole, rows, **parts)
    ways["all heads of keys, splits 2, early launch"] = called(early, rows, **parts)
    # Loads further ahead; and blocks for all multiprocessors, of which two parts leave four idle.
    for name, more in (("splits 2, stages 4", {"stages": 4}), ("splits 4", {"splits": 4})):
        chosen = called(early, rows, **{**parts, **more})
        ways[f"all heads of keys, {name}, early launch"] = chosen
    yield measured(work, ways, {n: partial(peer, n) for n in BACKENDS}, expected, WEIGHTS)


# -- linear attention and experts


def scan(batch: int = 8, chunks: int = 16, size: int = 256, heads: int = 80) -> Iterator[Work]:
    """The chunk scan of Mamba-2 2.7B: heads of 64, states of 128."""
    width, state, length = 64, 128, chunks * size
    cb, x = normal(batch, chunks, 1, size, size), normal(batch, length, heads, width)
    dt = torch.rand(batch, heads, chunks, size, device=x.device) * 0.1
    decay = torch.cumsum(-dt, -1)
    c, states = normal(batch, length, 1, state), normal(batch, chunks, heads, width, state)
    d = torch.randn(heads, device=x.device)
    given = (cb, x, dt, decay, c, states, d)
    y = torch.empty_like(x)

    def triton() -> torch.Tensor:
        import triton_scan

        return triton_scan.chunk_scan(*given, y)  # type: ignore[no-any-return]

    moved = sum(t.numel() * t.element_size() for t in (*given, y))
    work = Work(f"chunk scan {batch}×{length}×{heads}", float(moved), "GB/s", 1.5, 2.0)
    small: dict[str, Any] = {"block_M": 64, "block_K": 64, "threads": 128}
    ways: dict[str, Call] = {
        shown(o): partial(chunk_scan.chunk_scan, *given, **o)
        for o in ({"near": 8}, {"near": 4}, {"near": 16}, {"near": 8, "block_K": 64},
                  {"block_M": 64, "threads": 128}, small, {**small, "block_K": 32})
    }  # fmt: skip
    # So few registers that two blocks are on a multiprocessor.
    two = tileprof.jit(chunk_scan.chunk_scan.function, controls={"registers": 128})
    ways[f"{shown(small)}, 128 registers"] = partial(two, *given, **small)
    yield measured(work, ways, {"Triton": triton}, _scanned(*given), WEIGHTS)


def _scanned(cb: Any, x: Any, dt: Any, decay: Any, c: Any, states: Any, d: Any) -> torch.Tensor:
    """In float32, batch by batch."""
    made = []
    for b in range(len(x)):
        seen = torch.tril(torch.ones(cb.shape[-2:], device=cb.device, dtype=torch.bool))
        a = decay[b].transpose(0, 1)  # chunk, head, step
        inside = torch.exp((a[..., None] - a[..., None, :]).masked_fill(~seen, -torch.inf))
        inside *= cb[b].float() * dt[b].transpose(0, 1)[..., None, :]
        steps = x[b].float().unflatten(0, (a.shape[0], -1)).transpose(1, 2)
        before = c[b].float().unflatten(0, (a.shape[0], -1)).transpose(1, 2)
        y = inside @ steps + before @ states[b].float().transpose(-1, -2) * torch.exp(a)[..., None]
        made.append((y + d[:, None, None] * steps).transpose(1, 2).flatten(0, 1).to(x.dtype))
    return torch.stack(made)


def grouped(experts: int, rows: int = 1024, n: int = 4096, k: int = 4096) -> Iterator[Work]:
    """As many rows for each expert, beside PyTorch's grouped product."""
    a, b = normal(experts * rows, k), normal(experts, k, n)
    ends = torch.arange(1, experts + 1, device=a.device, dtype=torch.int32) * rows
    expected = torch.cat([part @ b[e] for e, part in enumerate(a.split(rows))])

    def peer() -> torch.Tensor:
        return torch._grouped_mm(a, b, offs=ends)

    def turned() -> torch.Tensor:
        return torch._grouped_mm(a, transposed.transpose(1, 2), offs=ends)

    transposed = b.transpose(1, 2).contiguous()
    work = Work(f"grouped {experts} × {rows}×{n}×{k}", 2.0 * len(a) * n * k, "TFLOP/s", 0.95, 1.03)
    ways: dict[str, Call] = {
        shown(o): partial(grouped_matmul.grouped_matmul, a, b, ends, **o)
        for o in ({"block_N": 256, "stages": 3}, {"block_N": 128, "stages": 5},
                  {"block_N": 192, "stages": 3})
    }  # fmt: skip
    peers = {"PyTorch": peer, "PyTorch, Bᵀ": turned}
    yield measured(work, ways, peers, expected, LIMIT)
