"""Sampling: what a kernel says of where it is, who looks, and where there is no room to look."""

from __future__ import annotations

import importlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileprof
from tests.cuda.compiled_kernels import kernel, lowered
from tileprof import ir
from tileprof.compiler.cuda.pipeline import CudaProgram
from tileprof.compiler.cuda.target import TARGETS
from tileprof.emulator import emulate
from tileprof.instrument.decode.samples import (
    Counts,
    SampleTotals,
    counted_words,
    read_counts,
    sampling,
)
from tileprof.remarks.launches import NotSampled, SharedMissing

small: Any = importlib.import_module("tests.cuda.small_kernels")

Array = np.ndarray[Any, Any]


def sampled(program: CudaProgram, values: list[Any], **given: Any) -> tuple[list[Any], Counts]:
    """Copies of the values after a launch, and what was seen."""
    (launch,) = [op for op in program.kernel.body.ops if isinstance(op, ir.Launch)]
    warps = launch.schedule.sampled_warps
    words = np.zeros(counted_words(warps, len(program.source.states)), np.uint64)
    argument = sampling(words.ctypes.data, shift=0, **given)
    held = [v.copy() for v in values]
    emulate(program.source, program.kernel, held, {}, sampling=argument)
    return held, read_counts(words, warps, len(program.source.states))


def matrices() -> list[Array]:
    """Of a small product, and where it goes."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (128, 256)).astype(ml_dtypes.bfloat16) for _ in range(2))
    return [a, b, np.zeros((128, 128), ml_dtypes.bfloat16)]


def test_warps_of_roles_are_seen_where_they_can_be() -> None:
    """Each counts for itself; results are unchanged; each role is in its steps."""
    program = lowered(kernel("small matmul"), "sm_90a", None, "sample")
    a, b, _ = given = matrices()
    found, counts = sampled(program, given)
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    np.testing.assert_array_equal(found[2], expected.astype(ml_dtypes.bfloat16))
    (spec,) = program.source.launches
    assert spec.threads == 160  # as without
    assert counts.looks > 0
    assert (counts.seen.sum(1) <= counts.looks).all()
    sites = program.source.sites
    totals = SampleTotals.of(counts, sites, program.source.states, spec.consumer_warps)
    names = {
        role: {sites[at].name for at in row[:-1].nonzero()[0].tolist()}
        for role, row in zip(totals.roles, totals.seen)
    }
    assert {"gemm", "wait for gemm", "wait for a, b"} <= names["consumer"]
    assert {"load A, B", "wait for a free slot"} <= names["producer"]
    assert not {"gemm", "fill c"} & names["producer"]
    assert not {"load A, B"} & names["consumer"]


@pytest.mark.parametrize("target", TARGETS)
def test_without_roles_all_warps_are_alike(target: str) -> None:
    """No warp is added for it."""
    made = kernel("small softmax")
    x = np.random.default_rng(0).standard_normal((8, 256)).astype(np.float32)
    expected = [x.copy(), np.zeros_like(x)]
    plain = lowered(made, target)
    emulate(plain.source, plain.kernel, expected, {})
    program = lowered(made, target, None, "sample")
    (before,), (spec,) = plain.source.launches, program.source.launches
    assert spec.threads == before.threads
    found, counts = sampled(program, [x, np.zeros_like(x)])
    np.testing.assert_array_equal(found[1], expected[1])
    assert counts.looks > 0
    assert len(counts.seen) == spec.sampled_warps == spec.consumer_warps
    # All warps go the same way, and a mark is a moment here.
    assert (counts.seen == counts.seen[0]).all()


def test_blocks_that_are_not_looked_at() -> None:
    """Of two blocks in four half as much is seen as the looks at them say; of none nothing."""
    program = lowered(kernel("small matmul"), "sm_90a", None, "sample")
    _, none = sampled(program, matrices(), every=8, first=4)
    assert (none.looks, none.seen.sum()) == (0, 0)
    _, some = sampled(program, matrices(), every=2, first=1)
    assert some.looks > 0
    found = [v.copy() for v in matrices()]
    emulate(program.source, program.kernel, found, {})
    assert found[2].any()


def test_a_kernel_without_room_says_what_is_missing() -> None:
    """Of shared memory; it runs unmeasured, as it would without."""
    large = tileprof.compile(small.full_memory).program.kernel
    program = lowered(large, "sm_90a", None, "sample")
    (remark,) = [r for r in program.remarks if isinstance(r.decision, NotSampled)]
    assert [each.left for each in remark.reasons(SharedMissing)] == [64]
    assert program.source.text == lowered(large, "sm_90a").source.text


@pytest.mark.parametrize("name", ["flash_attention", "gemm", "softmax"])
def test_case_studies_have_room(name: str) -> None:
    """With one product, with two and with none; nothing spills for it, and products stay
    asynchronous."""
    program = lowered(kernel(name), "sm_90a", None, "sample")
    assert not [r for r in program.remarks if isinstance(r.decision, NotSampled)]
    before = lowered(kernel(name), "sm_90a").cubin
    for function, used in program.cubin.resources.items():
        assert used.spill_stores <= before.resources[function].spill_stores
    assert {n.code for n in program.cubin.notes} <= {n.code for n in before.notes}


def test_sites_keep_their_instructions() -> None:
    """Arithmetic of a step stays between the clocks that say so: in the machine code exponentials
    stand in those of softmax alone.  What follows the last clock is the text without."""
    from tileprof import binary

    program = lowered(kernel("softmax bf16"), "sm_90a", None, "sample")
    (function,) = [
        f for f in binary.read(program.cubin.bytes).functions.values() if "softmax" in f.name
    ]
    texts = [i.text for i in function.instructions]
    # S2UR has warps that leave a barrier together queue for it: those in no hurry may take it.
    assert sum("S2UR" in text and "SR_CLOCKLO" in text for text in texts) <= 2
    clocks = [at for at, text in enumerate(texts) if "SR_CLOCKLO" in text]
    step, found = 0, dict[str, set[int]]()
    for text in texts[clocks[0] : clocks[-1] + 1]:
        step += "SR_CLOCKLO" in text
        for what in ("MUFU.EX2", "LDG", "STG"):
            if what in text:
                found.setdefault(what, set()).add(step)
    assert max(found["LDG"]) < min(found["MUFU.EX2"]) <= max(found["MUFU.EX2"]) < min(found["STG"])
