"""Wishes about buffers that become rings."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import re

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.emulator import emulate
from tileprof.remarks import Rejection
from tileprof.remarks.copies import CachePolicy, OnlyTmaAsks, StagedTma, TmaLoad, TmaStore


def test_a_layout_may_be_wished_for_a_buffer_of_a_pipeline() -> None:
    """What was asked about the buffer does not keep it beside its ring."""

    @T.prim_func
    def product(
        A: T.Tensor((64, 128), "float16"),
        B: T.Tensor((128, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ) -> None:
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.annotate_layout({a: T.make_swizzled_layout(a)})
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    kernel = tileprof.compile(product).program.kernel
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((64, 128), (128, 64)))
    for target in TARGETS.values():
        c = np.zeros((64, 64), np.float32)
        source = compile_cuda(kernel, target).source
        assert not source.host
        emulate(source, kernel, [a.copy(), b.copy(), c])
        np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), atol=1e-2)


def streamed(policy: str | None) -> ir.Kernel:
    """A product whose B is read, and whose C is written, by an eviction policy."""

    @T.prim_func
    def product(
        A: T.Tensor((64, 128), "float16"),
        B: T.Tensor((128, 64), "float16"),
        C: T.Tensor((64, 64), "float16"),
    ) -> None:
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b, eviction_policy=policy)
                T.gemm(a, b, c)
            T.copy(c, C, eviction_policy=policy)

    held: ir.Kernel = tileprof.compile(product).program.kernel
    return held


@pytest.mark.parametrize("policy", ["evict_first", "evict_last"])
def test_l2_is_told_what_to_give_up(policy: str) -> None:
    """By the copies that the author names, loads and stores, and no others."""
    kernel = streamed(policy)
    program = compile_cuda(kernel, TARGETS["sm_90a"])
    calls = re.findall(r"\btp_tma_(\w+)\((.*)\);", program.source.text)
    named = {
        ("A" if "a + " in rest else "B" if "b + " in rest else "C", name) for name, rest in calls
    }
    assert named == {("A", "load"), ("B", "load_hint"), ("C", "store_hint")}
    assert all((f"tp_{policy}()" in rest) == name.endswith("hint") for name, rest in calls)
    told = {
        r.subject
        for r in program.remarks
        if isinstance(r.decision, TmaLoad | TmaStore | StagedTma) and r.decision.policy == policy
    }
    assert told == {"copy B → b", "copy c → C"}
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((64, 128), (128, 64)))
    c = np.zeros((64, 64), np.float16)
    emulate(program.source, program.kernel, [a.copy(), b.copy(), c])
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), atol=0.1)


def test_other_copies_cannot_tell_l2() -> None:
    """A remark says so; the normal policy is none."""
    program = compile_cuda(streamed("evict_first"), TARGETS["sm_90a"], Controls(tma=False))
    against = Rejection(CachePolicy("evict_first"), OnlyTmaAsks())
    assert sum(against in r.rejected for r in program.remarks) == 2
    assert "evict" not in program.source.text
    for policy in ("evict_normal", None):
        text = compile_cuda(streamed(policy), TARGETS["sm_90a"]).source.text
        assert "_hint(" not in text
