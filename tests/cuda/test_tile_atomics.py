"""Products that are added to tensors: by TMA where it can, element by element elsewhere, and the
same sums either way on the emulated GPU."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.cuda.ring_kernels import split_product, split_sums
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate


def check(
    m: int,
    n: int,
    kind: str,
    dtype: str,
    controls: Controls | None = None,
    through: str = "",
) -> CudaProgram:
    """The program, whose sums (or maxima) are right for several orders of threads."""
    given = {"M": m, "N": n, "K": 256, "kind": kind, "dtype": dtype, "through": through}
    kernel = split_product.compile(**given).program.kernel
    program = compile_cuda(kernel, find_target("sm_90a"), controls)
    ir.verify(program.kernel)
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-1, 2, (x, 256)).astype(ml_dtypes.bfloat16) for x in (m, n))
    parts = np.einsum(
        "mpk,npk->pmn", *(x.astype(np.float32).reshape(len(x), 4, 64) for x in (a, b))
    )
    begun = generator.integers(-9, 9, (m, n)).astype(np.float32)
    want = begun + parts.sum(0) if kind == "add" else np.maximum(begun, parts.max(0))
    for seed in range(3):
        c = begun.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        emulate(program.source, program.kernel, [a, b, c], seed=seed)
        np.testing.assert_array_equal(c.astype(np.float32), want)
    return program


def about(program: CudaProgram) -> tuple[str, str]:
    """What is done with the product, and why nothing else."""
    (remark,) = (r for r in program.remarks if r.op == "atomic" and "→" in r.name)
    return str(remark.decision), remark.against


@pytest.mark.parametrize(("m", "dtype"), [(256, "bfloat16"), (200, "float32")])
def test_added_by_tma(m: int, dtype: str) -> None:
    """The next round waits until the tile of this one has been read."""
    program = check(m, 64, "add", dtype)
    assert about(program)[0] == "through shared memory and tma, which adds"
    assert "tp_tma_reduce_add" in program.source.text
    assert not any(isinstance(o, ir.Atomic) for o in program.kernel.ops())


@pytest.mark.parametrize(("m", "dtype"), [(256, "float32"), (200, "bfloat16")])
def test_shared_tile_is_added_by_tma(m: int, dtype: str) -> None:
    """It is read where it lies; the next round waits until it has been."""
    program = check(m, 64, "add", dtype, through="shared")
    assert about(program) == ("tma, which adds", "")
    assert not any(isinstance(o, ir.Atomic) for o in program.kernel.ops())
    assert "_staged" not in program.source.text
    text = program.source.text
    assert text.index("tp_bulk_wait_read<0>") < text.index("tp_tma_reduce_add")


def test_elements_of_a_product_are_added_as_a_tile() -> None:
    """A loop over them is one tile, wherever it begins."""
    program = check(200, 64, "add", "float32", through="elements")
    assert about(program) == ("through shared memory and tma, which adds", "")
    assert not any(isinstance(o, ir.Atomic) for o in program.kernel.ops())


@pytest.mark.parametrize(("columns", "stages", "fits"), [(64, 2, True), (256, 3, False)])
def test_elements_are_added_as_a_tile_behind_a_loop(columns: int, stages: int, fits: bool) -> None:
    """Where shared memory has room for it beside what is loaded."""
    kernel = split_sums.compile(M=200, N=columns, K=256, stages=stages).program.kernel
    program = compile_cuda(kernel, find_target("sm_90a"))
    assert any(isinstance(o, ir.Atomic) for o in program.kernel.ops()) != fits
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-1, 2, (x, 256)).astype(ml_dtypes.bfloat16) for x in (200, columns))
    c = np.ones((200, columns), np.float32)
    want = 1 + a.astype(np.float32) @ b.astype(np.float32).T
    emulate(program.source, program.kernel, [a, b, c])
    np.testing.assert_array_equal(c, want)


def test_other_loops_add_element_by_element() -> None:
    """What is added is not the product itself, or TMA is turned off."""
    for through, controls in (("doubled", None), ("elements", Controls(tma=False))):
        program = check(128, 64, "add", "float32", controls, through)
        assert any(isinstance(o, ir.Atomic) for o in program.kernel.ops())


def test_transposed_elements_are_no_tile() -> None:
    """TMA keeps the order of the axes."""
    kernel = split_product.compile(M=128, N=128, K=256, through="turned").program.kernel
    program = compile_cuda(kernel, find_target("sm_90a"))
    assert any(isinstance(o, ir.Atomic) for o in program.kernel.ops())


def test_shared_tile_is_added_element_by_element() -> None:
    """Where TMA is turned off."""
    program = check(128, 64, "add", "float32", Controls(tma=False), through="shared")
    assert about(program)[0] == "atomics of elements"
    assert any(isinstance(o, ir.Atomic) for o in program.kernel.ops())


@pytest.mark.parametrize(
    ("kind", "n", "controls", "reason"),
    [("max", 64, None, "it has no max of float32"),
     ("add", 64, Controls(tma=False), "it is turned off, as asked")],
)  # fmt: skip
def test_added_element_by_element(
    kind: str, n: int, controls: Controls | None, reason: str
) -> None:
    """Where TMA cannot do it."""
    program = check(128, n, kind, "float32", controls)
    chosen, rejected = about(program)
    assert chosen == "atomics of elements"
    assert reason in rejected
    assert any(isinstance(o, ir.Atomic) for o in program.kernel.ops())
