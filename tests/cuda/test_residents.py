"""Two blocks on a multiprocessor, where each has one warp group that computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.cuda.compiled_kernels import need_machine_code
from tests.cuda.public_kernels import product, scaled
from tileprof import ir
from tileprof.compiler import compile_kernel
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.remarks.launches import PairedBlocks

WAVES: dict[str, Any] = {"extents": (128 * 30, 128 * 30, 128), "stages": 2}
"""More tiles than fit at once, of 128 registers a thread, with 96 KB of shared memory."""


def lowered(function: Any, **controls: Any) -> CudaProgram:
    """The kernel for a GPU with `setmaxnreg`."""
    kernel = compile_kernel(tileprof.compile(function).traced).kernel
    return compile_cuda(kernel, find_target("sm_90a"), Controls(**controls))


def registers(program: CudaProgram) -> tuple[int, int]:
    """What the roles ask for."""
    (roles,) = (o for o in program.kernel.ops() if isinstance(o, ir.Roles))
    return roles.producer_registers, roles.consumer_registers


def test_two_blocks_share_registers() -> None:
    """Together the roles of a block ask for what it starts with, and a remark says so."""
    program = lowered(product(**WAVES))
    (spec,) = program.source.launches
    assert (spec.persistent, spec.threads) == (2, 256)
    assert "__launch_bounds__(256, 2)" in program.source.text
    assert registers(program) == (24, 232)
    decisions = [r.decision for r in program.remarks]
    assert PairedBlocks(2, 232) in decisions


@pytest.mark.parametrize(
    ("changes", "controls"),
    [
        pytest.param({"stages": 4}, {}, id="shared memory of one block only"),
        pytest.param({"tile": (64, 64, 64)}, {}, id="few registers"),
        pytest.param({"threads": 256}, {}, id="two groups that compute"),
        pytest.param({}, {"registers": 160}, id="a limit of the author's"),
        pytest.param({}, {"warp_specialization": False}, id="no roles"),
    ],
)
def test_one_block_stays_alone(changes: dict[str, Any], controls: dict[str, Any]) -> None:
    """Where a second one would not fit, or fits anyway."""
    program = lowered(product(**{**WAVES, **changes}), **controls)
    assert all(not isinstance(r.decision, PairedBlocks) for r in program.remarks)
    assert "(256, 2) matmul" not in program.source.text
    assert "tp_registers_increase<232>" not in program.source.text


def test_pairs_compute_the_same() -> None:
    """Each of two blocks loops over tiles of its own."""
    program = lowered(product(extents=(256, 512, 128)), persistent=True)
    assert program.source.launches[0].persistent == 2
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((256, 128), (128, 512)))
    c = np.zeros((256, 512), np.float16)
    emulate(program.source, program.kernel, [a, b, c], resident=2)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=2e-3, atol=2e-2)


def test_blocks_with_few_fragments_keep_one_warp_that_loads() -> None:
    """The assembler is told for how many blocks there have to be registers."""
    program = lowered(product(**{**WAVES, "tile": (64, 64, 64)}))
    (spec,) = program.source.launches
    # Five blocks have shared memory; each may have 72 registers a thread, of which 32 are sums.
    assert spec.persistent == 5
    assert "__launch_bounds__(160, 4)" in program.source.text
    need_machine_code()
    (held,) = program.cubin.resources.values()
    assert held.registers <= 96
    assert held.spill_stores == held.spill_loads == 0


def test_registers_of_both_fit() -> None:
    """A block starts with half of the registers, and no thread keeps any in memory."""
    need_machine_code()
    program = lowered(product(**WAVES))
    (held,) = program.cubin.resources.values()
    assert held.registers <= 128
    assert held.spill_stores == held.spill_loads == 0
    assert not [n for n in program.cubin.notes if n.kind == "setmaxnreg"]


def bounds(program: CudaProgram) -> str:
    """What a block may have and how many there have to be."""
    return program.source.text.partition("__launch_bounds__(")[2].partition(")")[0]


def test_more_blocks_where_a_product_waits_for_its_own_loads() -> None:
    """As many as shared memory holds and as leave registers; the results are the same."""
    program = lowered(scaled())
    threads, blocks = map(int, bounds(program).split(", "))
    assert threads == 128
    assert blocks > 4
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((32, 128), (512, 128)))
    c = np.zeros((32, 32), np.float32)
    emulate(program.source, program.kernel, [a, b, c], resident=1)
    expected = sum(a.astype(np.float32) @ (2 * t.astype(np.float32)).T for t in np.split(b, 16))
    np.testing.assert_allclose(c, expected, rtol=2e-3, atol=2e-2)
    need_machine_code()
    (held,) = program.cubin.resources.values()
    assert held.registers <= 65536 // (threads * blocks)
    assert held.spill_stores == held.spill_loads == 0


def test_no_more_blocks_where_loads_run_ahead_or_registers_are_given() -> None:
    """Copies that run beside a product, and a limit of the author's, leave the bound as it is."""
    assert bounds(lowered(product(), warp_specialization=False)) == "128, 1"
    assert bounds(lowered(scaled(), registers=128)) == "128, 1"


@pytest.mark.spread("64")
@pytest.mark.parametrize("rows", [64, 640, 1088])
def test_tiles_of_a_grid_known_at_the_launch(rows: int) -> None:
    """Every tile is computed; a division by what the launch knows gives quotient and rest."""
    function = product(extents=(T.dynamic("m"), 256, 128), tile=(64, 64, 64))
    program = lowered(function, persistent=True)
    divisions = {kind: program.source.text.count(f"tp_floor{kind}") for kind in ("div", "mod")}
    # For each role: both by a constant, and one by the height of the last group of rows.
    assert divisions == {"div": 4, "mod": 2}
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((rows, 128), (128, 256)))
    c = np.zeros((rows, 256), np.float16)
    emulate(program.source, program.kernel, [a, b, c], symbols={"m": rows}, resident=2)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=2e-3, atol=2e-2)
