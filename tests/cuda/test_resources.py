"""What is refused before compiling, and how many blocks a multiprocessor holds after."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cuda.ptxas_kernels import KERNELS
from tileprof import ir
from tileprof.compiler.cuda.build import compile_cubin
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.ptxas import Resources
from tileprof.compiler.cuda.resources import (
    SharedBuffer,
    binary_remarks,
    check,
    check_accumulators,
    check_shared,
    occupancy,
    occupancy_remark,
    registers_available,
)
from tileprof.compiler.cuda.source import LaunchSpec
from tileprof.compiler.cuda.target import TARGETS, find_target
from tileprof.errors import KernelError, Location
from tileprof.remarks.ptxas import Spilled

H200, A100 = find_target("sm_90a"), find_target("sm_80")
KB = 1024
SPEC = LaunchSpec("matmul", (), (), (), threads=256, shared=100 * KB)
HERE = Location("matmul.py", 7)
STAGES = [SharedBuffer("C", 5 * KB), SharedBuffer("A", 128 * KB, 4), SharedBuffer("B", 64 * KB, 4)]
TWO_RINGS = [SharedBuffer("A", 128 * KB, 2), SharedBuffer("B", 192 * KB, 4)]


def refusal(spec: LaunchSpec = SPEC, **needs: Any) -> str:
    """The message of a launch that cannot run on an H200."""
    with pytest.raises(KernelError) as caught:
        check(spec, needs.pop("target", H200), location=HERE, **needs)
    assert caught.value.location == HERE
    return f"{caught.value.message}\n{caught.value.hint}"


@pytest.mark.parametrize(
    ("shared", "buffers", "expected"),
    [
        (
            262 * KB,
            [*STAGES[:1], SharedBuffer("A", 128 * KB, 4), SharedBuffer("B", 128 * KB, 4)],
            "`matmul` needs 262 KB of shared memory in a block; sm_90a has 227 KB\n"
            "A 128 KB in 4 stages, B 128 KB in 4 stages, C 5 KB. "
            "num_stages=3 needs 198 KB and fits.",
        ),
        # One stage less everywhere is not enough; the ring of two keeps its two.
        (
            320 * KB,
            TWO_RINGS,
            "`matmul` needs 320 KB of shared memory in a block; sm_90a has 227 KB\n"
            "B 192 KB in 4 stages, A 128 KB in 2 stages. num_stages=2 needs 224 KB and fits.",
        ),
        (
            300 * KB,
            [SharedBuffer("Q", 300 * KB)],
            "`matmul` needs 300 KB of shared memory in a block; sm_90a has 227 KB\n"
            "Q 300 KB. Use smaller tiles.",
        ),
        (
            232449,
            [],
            "`matmul` needs 227.1 KB of shared memory in a block; sm_90a has 227 KB\n"
            "Use smaller tiles.",
        ),
    ],
)
def test_shared_memory(shared: int, buffers: list[SharedBuffer], expected: str) -> None:
    """The buffers, the largest first, and the most stages that fit."""
    assert refusal(replace(SPEC, shared=shared), buffers=buffers) == expected


def test_what_fits_to_the_byte_is_fine() -> None:
    """Limits themselves are allowed, on either target."""
    for target in TARGETS.values():
        most = replace(SPEC, threads=1024, shared=target.shared_per_block)
        check(most, target, barriers=16, whole_warps=True)
        with pytest.raises(KernelError, match="of shared memory"):
            check(replace(most, shared=most.shared + 1), target)


def test_threads() -> None:
    """Too many; and no multiple of a warp, only where it matters."""
    assert refusal(replace(SPEC, threads=1056)) == (
        "a block of `matmul` has 1,056 threads; sm_90a allows 1,024\n"
        "Use at most threads=1024; a kernel with a producer has 128 of its own."
    )
    odd = replace(SPEC, threads=100)
    check(odd, H200)
    assert refusal(odd, whole_warps=True) == (
        "`matmul` has 100 threads in a block, which is not a multiple of 32, and its threads work "
        "together by warps\nUse threads=96 or threads=128."
    )
    assert refusal(replace(SPEC, threads=8), whole_warps=True).endswith("\nUse threads=32.")


def test_barriers_and_clusters() -> None:
    """The numbers and a way out."""
    assert refusal(barriers=17) == (
        "`matmul` needs 17 named barriers; a block has 16\n"
        "Use fewer groups of threads that wait for each other."
    )
    check(replace(SPEC, cluster=8), H200)
    assert "clusters of 9 blocks; sm_90a allows 8" in refusal(replace(SPEC, cluster=9))
    assert "clusters of 2 blocks; sm_80 allows 1" in refusal(replace(SPEC, cluster=2), target=A100)


def test_accumulators() -> None:
    """They must fit into what a thread has; the tile that is proposed does."""
    check_accumulators((128, 256), 128, 256, 128, HERE)
    with pytest.raises(KernelError) as caught:
        check_accumulators((128, 256), 256, 128, 255, HERE)
    assert caught.value.location == HERE
    assert caught.value.message == (
        "the sums of a tile of 128 x 256 take 256 registers of each of 128 threads; a thread has "
        "255"
    )
    assert caught.value.hint == ("Use a smaller tile, as 128 x 128, or more threads that share it.")


def test_grids() -> None:
    """Blocks are numbered along one axis: only their number is limited."""
    extents = [ir.Constant(n, ir.index).result for n in (70_000, 70_000, 1)]
    check(replace(SPEC, grid=tuple(extents[1:])), H200)
    assert refusal(replace(SPEC, grid=tuple(extents))) == (
        "`matmul` has 70,000 x 70,000 x 1 blocks; a launch has at most 2,147,483,647\n"
        "Use larger tiles, or several launches."
    )
    unknown = ir.Value(ir.index, "m")
    check(replace(SPEC, grid=(unknown, *extents)), H200)


def test_stages_that_fit_are_counted_anew() -> None:
    """Buffers that share bytes: what fewer stages need is what the caller counts."""
    with pytest.raises(KernelError, match="num_stages=2 needs 200 KB and fits") as caught:
        check_shared("`f`", 300 * KB, H200, TWO_RINGS, lambda most: most * 100 * KB, HERE)
    assert caught.value.location == HERE


@pytest.mark.parametrize(
    ("threads", "expected"),
    [(32, 255), (128, 255), (256, 255), (288, 168), (384, 168), (512, 128), (544, 96), (1024, 64)],
)
def test_registers_that_a_thread_can_have(threads: int, expected: int) -> None:
    """65,536 among the warps, rounded up to four, in steps of 8: 288 threads count as 12 warps."""
    assert registers_available(threads, H200) == expected


@pytest.mark.parametrize(
    ("target", "registers", "shared", "threads", "blocks", "limit"),
    [
        # 64 warps, 8 a block.
        (H200, 32, 0, 256, 8, "threads"),
        # 32 blocks of a warp each are the most, though 64 warps fit.
        (H200, 32, 0, 32, 32, "blocks"),
        # 168 registers are 5,376 a warp: 3 of a quarter's 16,384, 12 warps, one block of 12.
        (H200, 168, 0, 384, 1, "registers"),
        # 40 registers are 1,280 a warp: 12 a quarter, 48 warps, 12 blocks of 4.
        (H200, 40, 0, 128, 12, "registers"),
        # 33 are rounded up to 1,280 as well.
        (H200, 33, 0, 128, 12, "registers"),
        # 98 KB and 1 KB for the system: 2 x 99 of 228.
        (H200, 64, 98 * KB, 256, 2, "shared memory"),
        # 113 + 1 = 114 is just half; one byte more takes another 128.
        (H200, 64, 113 * KB, 256, 2, "shared memory"),
        (H200, 64, 113 * KB + 1, 256, 1, "shared memory"),
        (A100, 64, 81 * KB, 128, 2, "shared memory"),
        (A100, 64, 81 * KB + 1, 128, 1, "shared memory"),
        # What cannot run at all.
        (H200, 32, 227 * KB + 1, 128, 0, "shared memory"),
        (H200, 65, 0, 1024, 0, "registers"),
        # 9 warps of 224 registers are checked as 12: 12 x 7,168 are too many.
        (H200, 224, 0, 288, 0, "registers"),
        (H200, 168, 0, 288, 1, "registers"),
        (H200, 0, 0, 64, 32, "threads"),
    ],
)
def test_blocks_of_a_multiprocessor(
    target: Any, registers: int, shared: int, threads: int, blocks: int, limit: str
) -> None:
    """Computed by hand from the rules for each resource."""
    assert occupancy(registers, shared, threads, target).blocks == blocks
    found = occupancy(registers, shared, threads, target)
    assert found.blocks == blocks
    assert (limit, blocks) in found.limits


def test_named_barriers_limit_blocks() -> None:
    """64 of them on an H200; 8.0 has no such limit."""
    assert occupancy(32, 0, 64, H200, barriers=5).blocks == 12
    assert occupancy(32, 0, 64, A100, barriers=5).blocks == 32


@pytest.mark.parametrize(
    ("spec", "resources", "expected"),
    [
        (
            replace(SPEC, shared=96 * KB),
            Resources("f", registers=64, barriers=2, shared=2 * KB),
            "occupancy: 2 blocks of 256 threads per SM, limited by shared memory (98 KB each)\n"
            "  not 3 blocks: they need at most 75 KB of shared memory each",
        ),
        (
            replace(SPEC, shared=0, threads=384),
            Resources("f", registers=168),
            "occupancy: 1 block of 384 threads per SM, limited by registers (168 a thread)\n"
            "  not 2 blocks: they need at most 80 registers a thread",
        ),
        (
            replace(SPEC, shared=0),
            Resources("f", registers=32),
            "occupancy: 8 blocks of 256 threads per SM, limited by threads and registers "
            "(32 a thread)",
        ),
        (
            replace(SPEC, shared=0, persistent=8),
            Resources("f", registers=32),
            "occupancy: 8 blocks of 256 threads per SM, limited by threads and registers "
            "(32 a thread)",
        ),
        (
            replace(SPEC, shared=0, persistent=1),
            Resources("f", registers=32),
            "occupancy: 8 blocks of 256 threads per SM, limited by threads and registers "
            "(32 a thread); a persistent launch of 1 per SM",
        ),
        (
            replace(SPEC, shared=113 * KB),
            Resources("f", registers=128),
            "occupancy: 2 blocks of 256 threads per SM, limited by registers (128 a thread) and "
            "shared memory (113 KB each)\n"
            "  not 3 blocks: they need at most 80 registers a thread and at most 75 KB of shared "
            "memory each",
        ),
        (
            replace(SPEC, shared=0, threads=32),
            Resources("f", registers=32, barriers=16),
            "occupancy: 4 blocks of 32 threads per SM, limited by named barriers (16 each)\n"
            "  not 5 blocks: they need fewer named barriers",
        ),
    ],
)
def test_remarks(spec: LaunchSpec, resources: Resources, expected: str) -> None:
    """What limits the blocks, and what one more would take."""
    assert str(occupancy_remark(spec, resources, H200, None)) == expected


def test_remarks_of_a_binary() -> None:
    """Those of ptxas and one for each launch, at lines of the author."""
    pytest.importorskip("cuda.bindings.nvrtc")
    source = KERNELS["spill"]
    spec = replace(SPEC, function="f", threads=1024, shared=0)
    made = compile_cubin(source, H200, Controls())
    spilled, blocks = binary_remarks(made, (spec,), H200)
    assert isinstance(spilled.decision, Spilled)
    assert str(blocks) == (
        "/author/kernel.py:10: occupancy: 2 blocks of 1024 threads per SM, limited by threads and "
        "registers (32 a thread)"
    )


@given(
    registers=st.integers(1, 255),
    shared=st.integers(0, 227 * KB),
    threads=st.integers(1, 1024),
)
def test_one_more_block_is_what_the_remark_says(registers: int, shared: int, threads: int) -> None:
    """With what it names there is one more block; with one unit more there is not."""
    spec = replace(SPEC, shared=shared, threads=threads)
    remark = occupancy_remark(spec, Resources("f", registers), H200, None)
    before = occupancy(registers, shared, threads, H200).blocks
    for reason in (str(each.reason) for each in remark.rejected):
        found = re.search(r"at most (\d+) registers", reason)
        if found and (fewer := int(found[1])):
            assert occupancy(fewer, 0, threads, H200).blocks >= before + 1
            assert occupancy(fewer + 1, 0, threads, H200).blocks <= before
        smaller = re.search(r"at most ([\d.]+) KB", reason)
        if smaller:
            size = int(float(smaller[1]) * KB)
            assert occupancy(0, size, 1, H200).blocks >= before + 1 or before >= 31
            assert occupancy(0, size + 205, 1, H200).blocks <= before
