"""Accesses that a GPU answers with a misaligned address: each kind at a multiple of its width,
where it goes through, and between two."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.emulated import Program, spec_of
from tileprof.emulator import EmulationError, emulate

LOADED = """if (t == 0) {{
    tp_mbarrier_init(full, 1);
    tp_fence_mbarrier_init();
    tp_mbarrier_expect(full, 256);
    {};
    tp_mbarrier_wait(full, 0);
  }}"""
STORED = "if (t == 0) {{ {}; tp_bulk_commit(); tp_bulk_wait<0>(); }}"
KINDS = {
    "one element of shared memory": (2, "*(float *)(shared + at + 8 * t) = 1;"),
    "one element of global memory": (4, "*(double *)(x + at + 8 * t) = 1;"),
    "one element of a thread's own memory": (2, "x[4 * t] += *(float *)((char *)own + at);"),
    "a vector of shared memory": (8, "tp_load_vector(words, (const uint32_t *)(shared + at));"),
    "a vector of global memory": (8, "tp_load_values_global<4>(own, (const float *)(x + at));"),
    "sums of a vector": (4, "tp_atomic_add_vector<2>((float *)(x + at), own);"),
    "cp.async to": (8, "tp_cp_async<16>(shared + at + 16 * t, x); tp_cp_async_wait<0>();"),
    "cp.async from": (4, "tp_cp_async<8>(shared + 8 * t, x + at); tp_cp_async_wait<0>();"),
    "ldmatrix": (8, "tp_ldmatrix_x4(words, shared + at + t % 32 * 16);"),
    "stmatrix": (8, "tp_stmatrix_x4(shared + at + t % 32 * 16, words);"),
    "mbarrier": (4, "if (t == 0) tp_mbarrier_init((uint64_t *)(shared + at), 1);"),
    "tensor load": (64, LOADED.format("tp_tma_load(shared + at, &map, full, 0, 0)")),
    "tensor store": (64, STORED.format("tp_tma_store(&map, shared + at, 0, 0)")),
    "tensor sum": (96, STORED.format("tp_tma_reduce_add(&map, shared + at, 0, 0)")),
    "bulk load to": (8, LOADED.format("tp_bulk_load(shared + at, x, 256, full)")),
    "bulk load from": (8, LOADED.format("tp_bulk_load(shared, x + at, 256, full)")),
    "bulk store to": (8, STORED.format("tp_bulk_store(x + at, shared, 64)")),
    "bulk store from": (8, STORED.format("tp_bulk_store(x, shared + at, 64)")),
    "matrix descriptor": (8, "words[0] += (uint32_t)tp_descriptor(shared + at, 16, 1024, 128);"),
}
"""By name: how many bytes behind a multiple an access is misaligned, and its text."""
CASES = "".join(f"case {n}: {{ {text} break; }}\n" for n, (_, text) in enumerate(KINDS.values()))
BODY = f"""
  unsigned char *const x = (unsigned char *)numbers;
  uint64_t *const full = (uint64_t *)(shared + 8192);
  uint32_t words[4] = {{}};
  float own[8] = {{}};
  const int at = what[1];
  switch (what[0]) {{ {CASES} }}
"""


@pytest.fixture(scope="module")
def program() -> Program:
    """All of them in one kernel."""
    x, what = np.zeros((64, 64), np.float32), np.zeros(2, np.int32)
    parameters = "float *numbers, const int *what, const __grid_constant__ TpTensorMap map"
    return Program(BODY, parameters, [x, what], shared=8192 + 64, maps=[spec_of(x, 0, (4, 16))])


@pytest.mark.parametrize("kind", KINDS)
def test_misaligned(program: Program, kind: str) -> None:
    """A message, and none at the next multiple of 1,024 bytes."""
    number, (off, _) = list(KINDS).index(kind), KINDS[kind]
    x, multiple = np.zeros((64, 64), np.float32), 0 if "own" in kind else 1024
    program.run([x, np.array([number, multiple], np.int32)])
    with pytest.raises(EmulationError, match=r"not aligned"):
        program.run([x, np.array([number, multiple + off], np.int32)])


def test_arrays_are_aligned_as_little_as_a_kernel_may_ask() -> None:
    """16 bytes, whatever an allocation happens to have; an array that has less keeps that."""
    memory = np.zeros(256, np.float32)
    start = -memory.ctypes.data % 256 // 4
    text = "if (t == 0) x[0] = (float)((uint64_t)x % 256);"
    program = Program(text, "float *x", [memory[:128]])
    for begin, rest in ((start, 16), (start + 2, 8), (start + 1, 4)):
        x = memory[begin : begin + 128]
        emulate(program.source, program.kernel, [x])
        assert x[0] == rest
