# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Loads that begin before a product: which of them, and the same numbers as behind it."""

import ml_dtypes
import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.passes import early_loads
from tileprof.compiler.cuda.pipeline import PASSES, CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import Watch, emulate

ROUNDS = 3


@tileprof.jit
def decayed(
    A,
    B,
    G,
    D,
    C,
    written: bool = False,
    threads: int = 256,
    down: bool = False,
    again: bool = False,
):
    """Products of the rounds, whose rows and the sum are scaled by what threads load themselves;
    with `again`, each product is added once more."""
    A: T.Tensor((64 * ROUNDS, 64), T.bfloat16)
    B: T.Tensor((64, 64), T.bfloat16)
    G: T.Tensor((64 * ROUNDS, 2), T.float32)
    D: T.Tensor((64, 2), T.float32)
    C: T.Tensor((64, 64), T.float32)
    with T.Kernel(1, threads=threads):
        a = T.alloc_shared((64, 64), T.bfloat16)
        b = T.alloc_shared((64, 64), T.bfloat16)
        g = T.alloc_shared((64,), T.float32)
        d = T.alloc_fragment((64,), T.float32)
        last = T.alloc_var(T.float32)
        part = T.alloc_fragment((64, 64), T.float32)
        total = T.alloc_fragment((64, 64), T.float32)
        T.copy(B, b)
        T.clear(total)
        for turn in T.Pipelined(ROUNDS, num_stages=2):
            step = ROUNDS - 1 - turn if down else turn
            T.copy(A[step * 64, 0], a)
            T.gemm(a, b, part, transpose_B=True, clear_accum=True)
            last = G[step * 64 + 63, 1]
            for i in T.Parallel(64):
                g[i] = G[step * 64 + i, 1] * 2
            for i, j in T.Parallel(64, 64):
                total[i, j] += part[i, j] * g[i] + last
            if again:
                T.gemm(a, b, total, transpose_B=True)
        for i in T.Parallel(64):
            d[i] = D[i, 0]
        for i, j in T.Parallel(64, 64):
            total[i, j] = total[i, j] + d[i]
        if written:
            for i in T.Parallel(64):
                D[i, 0] = 1
        T.copy(total, C)


def check(**options: object) -> CudaProgram:
    """The program, whose sums are right for several orders of threads."""
    kernel = decayed.compile(**options).program.kernel
    program = compile_cuda(kernel, find_target("sm_90a"))
    ir.verify(program.kernel)
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(-2, 3, s).astype(ml_dtypes.bfloat16) for s in ((64 * ROUNDS, 64), (64, 64))
    )
    g, d = (rng.integers(-3, 4, s).astype(np.float32) for s in ((64 * ROUNDS, 2), (64, 2)))
    want = np.repeat(d[:, :1], 64, 1)
    for step in range(ROUNDS):
        rows = slice(step * 64, step * 64 + 64)
        part = a[rows].astype(np.float32) @ b.astype(np.float32).T
        want = want + part * (g[rows, 1:] * 2 + bool(options.get("again"))) + g[rows, 1][-1]
    for seed in range(3):
        c = np.zeros((64, 64), np.float32)
        emulate(program.source, program.kernel, [a, b, g, d.copy(), c], seed=seed)
        np.testing.assert_array_equal(c, want)
    return program


@pytest.mark.parametrize("written", [False, True])
def test_loads_behind_products_begin_before_them(
    written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scalar, what goes to shared memory and what goes to registers; not from a tensor that the
    launch writes.  Products are taken to be as long as loads."""
    monkeypatch.setattr(early_loads, "LOAD_CYCLES", 0)
    program = check(written=written)
    told = [r.name for r in program.remarks if "before the product" in str(r)]
    assert told == (["G"] if written else ["G", "D"])
    loops = [o for o in program.kernel.ops() if isinstance(o, ir.For)]
    (body,) = (o.body for o in loops if any(isinstance(i, ir.AsyncGemm) for i in o.body.ops))
    ops = list(ir.walk(body))
    product = next(at for at, o in enumerate(ops) if isinstance(o, ir.AsyncGemm))
    loads = [at for at, o in enumerate(ops) if isinstance(o, ir.Load) and o.buffer.name == "G"]
    assert len(loads) == 2
    assert max(loads) < product


@pytest.mark.spread("True-False-128", "False-True-128")
@pytest.mark.parametrize(
    ("down", "again", "threads"),
    [(False, False, 128), (True, False, 128), (False, True, 128), (False, False, 256)],
)
def test_loads_an_iteration_ahead(down: bool, again: bool, threads: int) -> None:
    """Where one warp group computes, and where products are shorter than a load: in front of the
    loop for the first one, then behind the last use, also by the author's variable, and the product
    after it; the last loads again what it has.  What stands behind the loop is loaded in front of
    it, as for other blocks."""
    program = check(threads=threads, down=down, again=again)
    told = {r.name: str(r) for r in program.remarks if "ahead of its use" in str(r)}
    assert list(told) == ["G"]
    loops = [o for o in program.kernel.ops() if isinstance(o, ir.For)]
    (loop,) = (o for o in loops if any(isinstance(i, ir.AsyncGemm) for i in o.body.ops))
    ops = list(ir.walk(loop.body))
    products = [at for at, o in enumerate(ops) if isinstance(o, ir.AsyncGemm)]
    assert len(products) == 1 + again
    loads = [at for at, o in enumerate(ops) if isinstance(o, ir.Load) and o.buffer.name == "G"]
    assert len(loads) == 2
    used = [at for at, o in enumerate(ops) if isinstance(o, ir.Load) and o.buffer.name == "last"]
    assert min(loads) > max(used + products)
    waits = [at for at, o in enumerate(ops) if isinstance(o, ir.Wait) and o.queue == "wgmma"]
    assert max(loads) < max(waits) or not again
    every = [o for o in program.kernel.ops() if isinstance(o, ir.Load) and o.buffer.name == "G"]
    assert len(every) == 4


@tileprof.jit
def scaled(X, Y):
    """No product."""
    X: T.Tensor((128,), T.float32)
    Y: T.Tensor((128,), T.float32)
    with T.Kernel(1, threads=128):
        x = T.alloc_shared((128,), T.float32)
        T.copy(X, x)
        for i in T.Parallel(128):
            Y[i] = x[127 - i] * 2


def test_kernel_without_products_is_as_it_was() -> None:
    """Nothing is waited for, so nothing has to move."""
    seen = {}

    def observe(name: str, kernel: ir.Kernel) -> None:
        seen[name] = [o.SPEC.name for o in kernel.ops()]

    compile_cuda(scaled.compile().program.kernel, find_target("sm_90a"), observe=observe)
    names = [p.name for p in PASSES]
    assert seen["early_loads"] == seen[names[names.index("early_loads") - 1]]


@tileprof.jit
def selected(Q, K, V, At, Y, between: bool = False, columns: int = 32):
    """Attention without a softmax to blocks that are given by number, those that there are."""
    Q: T.Tensor((16, 32), T.float16)
    K: T.Tensor((80, 32), T.float16)
    V: T.Tensor((80, columns), T.float16)
    At: T.Tensor((ROUNDS,), T.int32)
    Y: T.Tensor((16, columns), T.float32)
    with T.Kernel(1, threads=32):
        q = T.alloc_shared((16, 32), T.float16)
        k = T.alloc_shared((32, 32), T.float16)
        v = T.alloc_shared((32, columns), T.float16)
        s = T.alloc_fragment((16, 32), T.float32)
        p = T.alloc_fragment((16, 32), T.float16)
        o = T.alloc_fragment((16, columns), T.float32)
        T.copy(Q, q)
        T.clear(o)
        T.clear(v)
        for turn in T.serial(ROUNDS):
            first = At[turn] * 32
            if first >= 0:
                T.copy(K[first, 0], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                T.copy(s, p)
                if between:
                    for i in T.Parallel(32):
                        p[0, i] += v[i, 0]
                T.copy(V[first, 0], v)
                T.gemm(p, v, o)
        T.copy(o, Y)


@pytest.mark.spread("True-32-False")
@pytest.mark.parametrize(
    ("between", "columns", "together"), [(False, 32, True), (True, 32, False), (False, 16, False)]
)
def test_tile_in_a_branch_is_loaded_with_the_one_before_the_product(
    between: bool, columns: int, together: bool
) -> None:
    """All loads of both are on their way before an element is stored, where the tile is used for
    nothing else and has the same shape; else the tile alone begins before the product."""
    kernel = selected.compile(between=between, columns=columns).program.kernel
    program = compile_cuda(kernel, find_target("sm_90a"))
    told = [r.name for r in program.remarks if "before the product" in str(r)]
    assert told == ["V"]
    text = program.source.text
    product = text.index("tp_mma", text.index("for (int turn"))
    assert (0 < text.find("tp_put_shared<8>(((TpHalf *)(v") < product) == together
    rng = np.random.default_rng(1)
    q, k, v = (
        rng.integers(-2, 3, s).astype(np.float16) for s in ((16, 32), (80, 32), (80, columns))
    )
    at = np.array([2, -1, 0], np.int32)
    want, seen = np.zeros((16, columns), np.float32), np.zeros(32, np.float32)
    for number in at[at >= 0]:
        rows = [np.pad(x, ((0, 16), (0, 0)))[number * 32 :][:32].astype(np.float32) for x in (k, v)]
        scores = q.astype(np.float32) @ rows[0].T
        scores[0] += seen if between else 0
        want += scores @ rows[1]
        seen = rows[1][:, 0]
    o, watch = np.zeros((16, columns), np.float32), Watch()
    emulate(program.source, program.kernel, [q, k, v, at, o], watch=watch)
    np.testing.assert_array_equal(o, want)
    assert not watch.found


@tileprof.jit
def scaled_first(A, B, G, C, threads: int = 128, gathered: bool = False):
    """Products of the rounds, whose scales go to shared memory before each; with `gathered`, a
    number of the round's says which tile is multiplied."""
    A: T.Tensor((64 * ROUNDS, 64), T.bfloat16)
    B: T.Tensor((64, 64), T.bfloat16)
    G: T.Tensor((64, ROUNDS), T.int32)
    C: T.Tensor((64, 64), T.float32)
    with T.Kernel(1, threads=threads):
        a = T.alloc_shared((64, 64), T.bfloat16)
        b = T.alloc_shared((64, 64), T.bfloat16)
        g = T.alloc_shared((64,), T.float32)
        part = T.alloc_fragment((64, 64), T.float32)
        total = T.alloc_fragment((64, 64), T.float32)
        T.copy(B, b)
        T.clear(total)
        for step in T.Pipelined(ROUNDS, num_stages=2):
            T.copy(A[(T.abs(G[0, step]) % ROUNDS if gathered else step) * 64, 0], a)
            for i in T.Parallel(64):
                g[i] = T.cast(G[i, step], T.float32) * 2
            T.gemm(a, b, part, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                total[i, j] += part[i, j] * g[i]
        T.copy(total, C)


@pytest.mark.spread("two groups")
@pytest.mark.parametrize(
    ("threads", "gathered", "ahead"),
    [(128, False, ["G"]), (256, False, []), (128, True, ["G"])],
    ids=["one group", "two groups", "with an index"],
)
def test_loads_in_front_of_a_product(threads: int, gathered: bool, ahead: list[str]) -> None:
    """One group's product waits for them: they are asked for an iteration ahead, unless they say
    what is multiplied."""
    made = scaled_first.compile(threads=threads, gathered=gathered)
    program = compile_cuda(made.program.kernel, find_target("sm_90a"))
    ir.verify(program.kernel)
    assert [r.name for r in program.remarks if "ahead of its use" in str(r)] == ahead
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(-2, 3, s).astype(ml_dtypes.bfloat16) for s in ((64 * ROUNDS, 64), (64, 64))
    )
    g = rng.integers(-3, 4, (64, ROUNDS)).astype(np.int32)
    parts = (a.astype(np.float32) @ b.astype(np.float32).T).reshape(ROUNDS, 64, 64)
    which = np.abs(g[0]) % ROUNDS if gathered else range(ROUNDS)
    want = sum(parts[which[s]] * 2 * g[:, s, None] for s in range(ROUNDS))
    for seed in range(3):
        c = np.zeros((64, 64), np.float32)
        emulate(program.source, program.kernel, [a, b, g, c], seed=seed, watch=Watch())
        np.testing.assert_array_equal(c, want)


@tileprof.jit
def tile_scaled(A, B, G, C, threads: int = 128):
    """Products of the rounds, each scaled by a number."""
    A: T.Tensor((64 * ROUNDS, 64), T.bfloat16)
    B: T.Tensor((64, 64), T.bfloat16)
    G: T.Tensor((ROUNDS,), T.float32)
    C: T.Tensor((64, 64), T.float32)
    with T.Kernel(1, threads=threads):
        a = T.alloc_shared((64, 64), T.bfloat16)
        b = T.alloc_shared((64, 64), T.bfloat16)
        part = T.alloc_fragment((64, 64), T.float32)
        total = T.alloc_fragment((64, 64), T.float32)
        T.copy(B, b)
        T.clear(total)
        for step in T.Pipelined(ROUNDS, num_stages=2):
            T.copy(A[step * 64, 0], a)
            T.gemm(a, b, part, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                total[i, j] += part[i, j] * G[step]
        T.copy(total, C)


@pytest.mark.parametrize("threads", [128, 256])
def test_what_all_points_need_is_a_scalar(threads: int) -> None:
    """A scale of a tile is loaded once for all of its elements, an iteration ahead."""
    kernel = tile_scaled.compile(threads=threads).program.kernel
    program = compile_cuda(kernel, find_target("sm_90a"))
    ir.verify(program.kernel)
    assert [r.name for r in program.remarks if "ahead of its use" in str(r)] == ["G"]
    assert not [o for o in program.kernel.ops() if isinstance(o, ir.Alloc) and o.hint == "G_early"]
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(-2, 3, s).astype(ml_dtypes.bfloat16) for s in ((64 * ROUNDS, 64), (64, 64))
    )
    g = rng.integers(-3, 4, ROUNDS).astype(np.float32)
    parts = (a.astype(np.float32) @ b.astype(np.float32).T).reshape(ROUNDS, 64, 64)
    c = np.zeros((64, 64), np.float32)
    emulate(program.source, program.kernel, [a, b, g, c])
    np.testing.assert_array_equal(c, np.tensordot(g, parts, 1))


@tileprof.jit
def rescaled(A, B, G, H, C, threads: int = 128):
    """Products of the rounds, each scaled by its rows and its columns."""
    A: T.Tensor((64 * ROUNDS, 64), T.bfloat16)
    B: T.Tensor((64, 64), T.bfloat16)
    G: T.Tensor((64, ROUNDS), T.float32)
    H: T.Tensor((ROUNDS, 64), T.float32)
    C: T.Tensor((64, 64), T.float32)
    with T.Kernel(1, threads=threads):
        a = T.alloc_shared((64, 64), T.bfloat16)
        b = T.alloc_shared((64, 64), T.bfloat16)
        part = T.alloc_fragment((64, 64), T.float32)
        total = T.alloc_fragment((64, 64), T.float32)
        T.copy(B, b)
        T.clear(total)
        for step in T.Pipelined(ROUNDS, num_stages=2):
            T.copy(A[step * 64, 0], a)
            T.gemm(a, b, part, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                total[i, j] += part[i, j] * (G[i, step] * H[step, j])
        T.copy(total, C)


@pytest.mark.parametrize("threads", [128, 256])
def test_scales_of_rows_and_columns_are_held_once_each(threads: int) -> None:
    """Not once for each point, for which there would be no registers, and those of a row of the
    tensor come as a tile; where one warp group computes, its slot is free before it scales."""
    program = compile_cuda(rescaled.compile(threads=threads).program.kernel, find_target("sm_90a"))
    ir.verify(program.kernel)
    held = [
        o
        for o in program.kernel.ops()
        if isinstance(o, ir.Alloc) and o.space == "fragment" and len(o.shape) == 1
    ]
    assert {o.result.name: o.shape for o in held} == {"G_early": (64,), "H_held": (64,)}
    rng = np.random.default_rng(0)
    a, b = (
        rng.integers(-2, 3, s).astype(ml_dtypes.bfloat16) for s in ((64 * ROUNDS, 64), (64, 64))
    )
    g, h = (rng.integers(-3, 4, s).astype(np.float32) for s in ((64, ROUNDS), (ROUNDS, 64)))
    parts = (a.astype(np.float32) @ b.astype(np.float32).T).reshape(ROUNDS, 64, 64)
    want = sum(parts[s] * g[:, s, None] * h[s] for s in range(ROUNDS))
    for seed in range(3):
        c = np.zeros((64, 64), np.float32)
        emulate(program.source, program.kernel, [a, b, g, h, c], seed=seed)
        np.testing.assert_array_equal(c, want)
    (loop,) = (
        o
        for o in program.kernel.ops()
        if isinstance(o, ir.For) and any(isinstance(i, ir.AsyncGemm) for i in o.body.ops)
    )
    wide = {o.result for o in program.kernel.ops() if isinstance(o, ir.Ring) and o.bytes > 4096}
    free = next(
        at for at, o in enumerate(loop.body.ops) if isinstance(o, ir.RingRelease) and o.ring in wide
    )
    adds = next(
        at
        for at, o in enumerate(loop.body.ops)
        if isinstance(o, ir.Parallel)
        and any(isinstance(i, ir.Store) and i.buffer.name == "total" for i in o.body.ops)
    )
    assert (free < adds) == (threads == 128)
