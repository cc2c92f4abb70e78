# mypy: ignore-errors
# ruff: noqa: ANN001, ANN003, ANN201
"""Which exponentials are one instruction, and that their results are those of the exact ones."""

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate

SIZE = 256


@T.prim_func
def several(
    X: T.Tensor((SIZE,), T.float32),
    H: T.Tensor((SIZE,), T.float16),
    Whole: T.Tensor((SIZE,), T.float32),
    Narrow: T.Tensor((SIZE,), T.float16),
    Halves: T.Tensor((SIZE,), T.float16),
    Both: T.Tensor((SIZE,), T.float32),
    Natural: T.Tensor((SIZE,), T.float32),
):
    """An exponential that is stored whole, one that is rounded, one of halves, one with two uses,
    and one of another base."""
    with T.Kernel(1, threads=128):
        for i in T.Parallel(SIZE):
            Whole[i] = T.exp2(X[i])
            Narrow[i] = T.cast(T.exp2(X[i] + 1), T.float16)
            Halves[i] = T.exp2(H[i])
            twice = T.exp2(X[i] + 2)
            Both[i] = twice + T.cast(T.cast(twice, T.float16), T.float32)
            Natural[i] = T.exp(X[i])


def run(**options):
    """The kinds of exponentials of the lowered kernel, and the arrays after it ran."""
    made = tileprof.compile(several, **options)
    program = compile_cuda(made.program.kernel, find_target("sm_90a"), made.options.controls)
    ir.verify(program.kernel)
    x = np.linspace(-150, 14, SIZE, dtype=np.float32)
    arrays = [x, np.linspace(-30, 15, SIZE).astype(np.float16)]
    arrays += [
        np.zeros(SIZE, t) for t in (np.float32, np.float16, np.float16, np.float32, np.float32)
    ]
    emulate(program.source, program.kernel, arrays)
    kinds = [
        f"{o.kind}{' fast' * o.fast}"
        for o in program.kernel.ops()
        if isinstance(o, ir.Unary) and o.kind in ("exp", "exp2")
    ]
    return kinds, arrays


def test_only_where_no_denormal_shows() -> None:
    """Exponentials become fast where their result is rounded to float16 at once, or is one; the
    results are the exact ones."""
    kinds, (x, h, whole, narrow, halves, _, natural) = run()
    assert kinds == ["exp2", "exp2 fast", "exp2 fast", "exp2", "exp"]
    np.testing.assert_allclose(whole, np.exp2(x.astype(np.float64)), rtol=1e-6, atol=1e-45)
    np.testing.assert_allclose(natural, np.exp(x.astype(np.float64)), rtol=1e-6, atol=1e-45)
    # The last place of a denormal float16 is 2⁻²⁴.
    np.testing.assert_allclose(
        narrow.astype(np.float64), np.exp2(x.astype(np.float64) + 1), rtol=1e-3, atol=2.0**-25
    )
    np.testing.assert_allclose(
        halves.astype(np.float64), np.exp2(h.astype(np.float64)), rtol=1e-3, atol=2.0**-25
    )


@pytest.mark.parametrize(
    "options",
    [
        {"controls": {"fast_math": True}},
        {"pass_configs": {"tl.enable_fast_math": True}},
        {"pass_configs": {"TL_ENABLE_FAST_MATH": True, "tl.disable_tma_lower": True}},
    ],
)
def test_all_where_the_author_asks(options) -> None:
    """All exponentials become fast by a control, or by `pass_configs` as TileLang's examples do."""
    kinds, (x, *_, natural) = run(**options)
    assert kinds == ["exp2 fast"] * 5
    np.testing.assert_allclose(natural, np.exp(x.astype(np.float64)), rtol=2e-5, atol=2.0**-126)


def test_launches_still_name_values_of_the_kernel() -> None:
    """Values that the host computes before a launch are those of the kernel that was compiled."""
    n = T.dynamic("n")

    @T.prim_func
    def doubled(X: T.Tensor((n,), "float32")) -> None:
        with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
            for i in T.Parallel(128):
                X[bx * 128 + i] = T.exp2(X[bx * 128 + i])

    kernel = tileprof.compile(doubled).program.kernel
    source = compile_cuda(kernel, find_target("sm_90a"), Controls(fast_math=True)).source
    held = np.arange(5, dtype=np.float32)
    emulate(source, kernel, [held], {"n": 5})
    np.testing.assert_allclose(held, [1, 2, 4, 8, 16], rtol=1e-6)


@pytest.mark.parametrize("configs", [None, {"tl.enable_fast_math": False}, "fast_math"])
def test_none_where_the_author_does_not(configs) -> None:
    """Other configurations of passes say nothing."""
    assert tileprof.compile(several, pass_configs=configs).options.controls.fast_math is False
