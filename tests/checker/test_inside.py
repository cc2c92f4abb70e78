"""The inside of blocks: what a check of the GPU's program finds, and what it leaves open."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileprof
from tests.checker import inside_kernels
from tileprof.checker import Plan, check_call
from tileprof.checker.explore import Arguments
from tileprof.checker.in_block import Inside, explore_source
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.ir import Kernel


def operands() -> tuple[Any, Any]:
    """Two matrices of 128 by 256 and back."""
    ones = np.ones((128, 256), ml_dtypes.bfloat16)
    return ones, np.ascontiguousarray(ones.T)


@cache
def lowered() -> tuple[CudaProgram, Kernel]:
    """The product for sm_90a."""
    kernel = inside_kernels.product.compile(M=128, N=128, K=256).program.kernel
    return compile_cuda(kernel, find_target("sm_90a")), kernel


def changed(old: str, new: str, seeds: tuple[int, ...] = (0,)) -> Inside:
    """The check of the product's text with something else in the first place of `old`."""
    program, kernel = lowered()
    assert old in program.source.text
    source = replace(program.source, text=program.source.text.replace(old, new, 1))
    values = [*operands(), np.zeros((128, 128), ml_dtypes.bfloat16)]
    return explore_source(source, kernel, Arguments.copy(kernel, values, ()), Plan(seeds=seeds))


def test_a_clean_product_is_explored() -> None:
    """Three of its blocks, for each GPU."""
    for target in ("sm_90a", "sm_80"):
        report = check_call(inside_kernels.product, operands(), {}, Plan(target, (0, 1)))
        assert report.findings == ()
        inside = report.launches[0].inside
        assert inside is not None
        assert (inside.races, inside.deadlocks, inside.target) == ("explored", "explored", target)
        assert (inside.blocks, inside.seeds) == ((0, 2, 3), (0, 1))


def test_threads_that_share_nothing_are_proved() -> None:
    """No shared memory and no barrier."""
    report = tileprof.check(inside_kernels.doubled, np.ones(64, np.float32))
    inside = report.launches[0].inside
    assert inside is not None
    assert (inside.races, inside.deadlocks) == ("proved", "proved")


def test_a_missing_wait_is_a_race_with_two_lines() -> None:
    """The schedule shows it again."""
    found = changed("tp_mbarrier_wait(ring_full + ring_slot, ring_phase);", "").findings
    finding = next(each for each in found if each.code == "shared-memory-race")
    assert finding.buffer in ("A_shared", "B_shared")
    lines = Path(inside_kernels.__file__).read_text().splitlines()
    said = {
        each.actor: lines[each.location.line - 1].strip() for each in finding.accesses
        if each.location is not None
    }  # fmt: skip
    assert said["wgmma"] == "T.gemm(A_shared, B_shared, C_local)"
    assert said["TMA load"].startswith("T.copy(")
    assert finding.schedule is not None
    again = changed(
        "tp_mbarrier_wait(ring_full + ring_slot, ring_phase);", "", (finding.schedule.seed,)
    )
    assert again.findings == found


def test_a_fence_and_a_wait_that_are_left_out() -> None:
    """Each has a code of its own."""
    text = lowered()[0].source.text
    last = text.rindex("tp_fence_async();")
    part = text[last : last + 40]
    (fence,) = changed(part, part.replace("tp_fence_async();", "")).findings
    assert (fence.code, fence.buffer) == ("missing-fence", "C_staged")
    early = changed("tp_wgmma_wait<0>();", "").findings
    assert "early-accumulator" in {each.code for each in early}


def test_a_deadlock_names_who_waits_where() -> None:
    """A load whose bytes are counted too high; later schedules are not run."""
    text = lowered()[0].source.text
    at = text.index("tp_mbarrier_expect(")
    call = text[at : text.index(";", at)]
    more = call.replace("16384", "16400").replace("8192", "8208")
    assert more != call
    inside = changed(call, more, (0, 1, 2))
    (finding,) = inside.findings
    assert finding.code == "deadlock"
    assert {each.kind for each in finding.accesses} == {"wait"}
    assert all(each.location is not None for each in finding.accesses)
    (verdict,) = inside.verdicts
    assert (verdict.deadlocks, verdict.races, verdict.seeds) == ("refuted", "unchecked", (0,))


def test_without_a_compiler_nothing_is_explored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is given, and the proofs are there."""
    from tileprof.checker import in_block
    from tileprof.errors import MissingDependencyError

    def refuse(source: object) -> None:
        raise MissingDependencyError("no C++ compiler")

    monkeypatch.setattr(in_block, "watched_library", refuse)
    report = tileprof.check(inside_kernels.product, *operands())
    inside = report.launches[0].inside
    assert inside is not None
    assert (inside.races, inside.reason) == ("unchecked", "no C++ compiler")
    assert report.launches[0].verdicts["races"].status == "proved"


def test_a_kernel_that_a_gpu_cannot_have_is_unchecked() -> None:
    """The refusal is the reason."""
    report = check_call(inside_kernels.large, (np.ones((128, 512), np.float32),), {}, Plan("sm_80"))
    inside = report.launches[0].inside
    assert inside is not None
    assert inside.races == "unchecked"
    assert "shared memory" in inside.reason


def test_the_inside_can_be_left_out() -> None:
    """Nothing is said of it."""
    report = check_call(inside_kernels.product, operands(), {}, None)
    assert report.launches[0].inside is None
