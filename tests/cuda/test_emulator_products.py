"""Products of warp groups in the emulator: layouts, waits, fences, a whole kernel."""

from __future__ import annotations

import itertools
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tests.cuda.emulated import SEEDS, Array, Program, fails_for_some_seed, join, spec_of

WGMMA = """
  uint64_t *const full = (uint64_t *)(shared + 65536);
  if (t == 0) {
    tp_mbarrier_init(full, 1);
    tp_fence_mbarrier_init();
    tp_mbarrier_expect(full, LOADS * 1024);
    LOAD
  }
  tp_barrier();
  tp_mbarrier_wait(full, 0);
  float d[N / 2];
  A_REGISTERS
  tp_wgmma_fence();
  for (int k = 0; k < 4; k++) {
    PRODUCT
  }
  tp_wgmma_commit();
  tp_wgmma_wait<0>();
  for (int i = 0; i < N / 2; i++) {
    const int row = t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8;
    out[row * N + i / 4 * 8 + t % 4 * 2 + i % 2] = d[i];
  }
"""
PARAMETERS = (
    "const TpBfloat *a, const TpBfloat *b, float *out, const __grid_constant__ TpTensorMap map0, "
    "const __grid_constant__ TpTensorMap map1"
)


class Operand:
    """How a matrix of `extent` rows or columns and 64 of depth gets to shared memory and is
    described there: boxes of one line of the swizzle each, line after line of them."""

    def __init__(self, name: str, extent: int, swizzle: int, transposed: bool) -> None:
        self.name, self.extent, self.transposed = name, extent, transposed
        self.swizzle, line = swizzle, swizzle or 16
        self.shape = (64, extent) if transposed else (extent, 64)
        per_line = line // 2
        self.box = (self.shape[0], per_line)
        self.boxes = self.shape[1] // per_line
        # A box is `shape[0]` rows of one line; eight rows make a core matrix or an atom.
        panel, atom = self.shape[0] * line, 8 * line
        if transposed:
            # M or N goes on in the next box, K in the next eight rows.
            self.leading, self.stride = (panel, atom) if swizzle else (atom, panel)
            self.step = f"k * {2 * atom}"
        else:
            self.leading, self.stride = (0, atom) if swizzle else (panel, atom)
            self.step = f"k * 32 / {line} * {panel} + k * 32 % {line}"

    def load(self, number: int, at: int) -> str:
        """The loads of all boxes."""
        per = self.box[0] * self.box[1] * 2
        return "\n".join(
            f"tp_tma_load(shared + {at + i * per}, &map{number}, full, {i * self.box[1]}, 0);"
            for i in range(self.boxes)
        )

    def descriptor(self, at: int) -> str:
        """The descriptor of step `k`."""
        numbers = f"{self.leading}, {self.stride}, {self.swizzle}"
        return f"tp_descriptor(shared + {at} + {self.step}, {numbers})"


def wgmma(
    a: Operand, b: Operand, registers: bool = False, text: str = WGMMA, seed: int = 6
) -> tuple[Program, list[Array], Array]:
    """A 64 x N x 64 product of bfloat16."""
    rng = np.random.default_rng(seed)
    n = b.extent
    left = rng.integers(-4, 5, (64, 64)).astype(ml_dtypes.bfloat16)
    right = rng.integers(-4, 5, (64, n)).astype(ml_dtypes.bfloat16)
    want = left.astype(np.float32) @ right.astype(np.float32)
    held_a = np.ascontiguousarray(left.T if a.transposed else left)
    held_b = np.ascontiguousarray(right if b.transposed else right.T)
    arrays: list[Array] = [held_a, held_b, np.zeros((64, n), np.float32)]
    name = f"tp_wgmma_m64n{n}k16_bf16_bf16_{'rs' if registers else 'ss'}"
    name += "_ta" * a.transposed + "_tb" * b.transposed
    first = "ra + 4 * k" if registers else a.descriptor(0)
    gather = """
      uint32_t ra[16];
      const uint32_t *const words = (const uint32_t *)a + (t / 32 * 16 + t % 32 / 4) * 32 + t % 4;
      for (int i = 0; i < 16; i++) ra[i] = words[i % 2 * 256 + i / 2 * 4];
    """
    text = text.replace("PRODUCT", f"{name}(d, {first}, {b.descriptor(16384)}, k > 0);")
    text = text.replace("A_REGISTERS", gather if registers else "")
    text = text.replace("LOADS", str(8 + n // 8)).replace("LOAD", a.load(0, 0) + b.load(1, 16384))
    text = text.replace("N", str(n))
    maps = [spec_of(held_a, 0, a.box, a.swizzle), spec_of(held_b, 1, b.box, b.swizzle)]
    return Program(text, PARAMETERS, arrays, shared=65544, maps=maps), arrays, want


def test_wgmma_layouts() -> None:
    """Both operands from shared memory, each K-major or M- or N-major, in every swizzle."""
    both, made = (False, True), {}
    for swizzle, of_a, of_b, n in itertools.product((0, 32, 64, 128), both, both, (64, 128)):
        operands = Operand("a", 64, swizzle, of_a), Operand("b", n, swizzle, of_b)
        made[swizzle, of_a, of_b, n] = wgmma(*operands)
    join([program for program, _, _ in made.values()])
    for form, (program, arrays, want) in made.items():
        program.run(arrays, form[-1] + form[1])
        assert (arrays[2] == want).all(), form


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("registers", [False, True])
def test_wgmma_for_every_seed(seed: int, registers: bool) -> None:
    """A from shared memory or from registers."""
    operands = Operand("a", 64, 128, False), Operand("b", 64, 128, True)
    program, arrays, want = wgmma(*operands, registers)
    program.run(arrays, seed)
    assert (arrays[2] == want).all()


MISTAKES = (
    ("tp_wgmma_wait<0>();", "", False),
    ("tp_wgmma_wait<0>();", "tp_wgmma_wait<1>();", False),
    ("tp_wgmma_commit();", "", False),
    ("tp_wgmma_fence();", "", False),
    ("tp_wgmma_fence();", "", True),
    ("tp_mbarrier_wait(full, 0);", "", False),
    ("for (int k = 0; k < 4; k++)", "if (t < 96) for (int k = 0; k < 4; k++)", False),
    ("k < 4;", "k < (t < 64 ? 3 : 4);", False),
    ("k > 0", "t != 5", False),
)
"""Text of a product, the text that replaces it, and whether A is in registers."""


def test_wgmma_mistakes_show() -> None:
    """Waits, commits and fences that lack, and warps that do not take part."""
    operands = Operand("a", 64, 128, False), Operand("b", 64, 128, False)
    made = [wgmma(*operands, registers) for _, _, registers in MISTAKES]
    for (old, new, _), (program, _, _) in zip(MISTAKES, made):
        text = program.source.text
        assert old in text
        program.source = replace(program.source, text=text.replace(old, new))
    join([program for program, _, _ in made])
    for mistake, (program, arrays, want) in zip(MISTAKES, made):
        assert fails_for_some_seed(program, arrays, want), mistake


def test_wgmma_with_half_sums() -> None:
    """Two sums to a register."""
    operands = Operand("a", 64, 128, False), Operand("b", 64, 128, False)
    text = WGMMA.replace("PRODUCT", "HALF").replace("float d[N / 2]", "uint32_t d[N / 4]")
    text = text.replace("= d[i]", "= tp_value(((TpHalf *)d)[i])")
    program, arrays, want = wgmma(*operands, text=text)
    a, b = (o.descriptor(at) for o, at in zip(operands, (0, 16384)))
    call = f"tp_wgmma_m64n64k16_f16_f16_ss_into_f16(d, {a}, {b}, k > 0);"
    body = program.source.text.replace("HALF", call)
    program.source = replace(program.source, text=body)
    halves: list[Array] = [a.astype(np.float16) for a in arrays[:2]]
    program.run([*halves, arrays[2]])
    assert (arrays[2] == want.astype(np.float16)).all()


CHAIN = """
  TpHalf *const sa = (TpHalf *)shared, *const sb = sa + 64 * 16;
  float d[8] = {1, 1, 1, 1, 1, 1, 1, 1}, e[8];
  for (int round = 0; round < 3; round++) {
    for (int i = t; i < 1024; i += 128)
      sa[i % 16 / 8 * 512 + i / 16 * 8 + i % 8] = tp_store<TpHalf>(i % 7 + round);
    for (int i = t; i < 256; i += 128)
      sb[i % 16 / 8 * 128 + i / 16 * 8 + i % 8] = tp_store<TpHalf>(i % 5);
    tp_fence_async();
    tp_barrier();
    tp_wgmma_fence();
    const uint64_t da = tp_descriptor(sa, 1024, 128, 0), db = tp_descriptor(sb, 256, 128, 0);
    tp_wgmma_m64n16k16_f16_f16_ss(d, da, db, 1);
    tp_wgmma_commit();
    tp_wgmma_m64n16k16_f16_f16_ss(e, da, db, ROUND);
    tp_wgmma_commit();
    tp_wgmma_wait<1>();
    d[round] += 1;
    tp_wgmma_wait<0>();
    tp_barrier();
  }
  for (int i = 0; i < 8; i++) out[t * 8 + i] = d[i] + 1000 * e[i];
"""


def chain(text: str) -> tuple[Program, list[Array], Array]:
    """Three rounds of two products, the operands written by ordinary stores."""
    i, j = np.arange(1024).reshape(64, 16), np.arange(256).reshape(16, 16)
    sums = [(i % 7 + r).astype(np.float32) @ (j % 5).T.astype(np.float32) for r in range(3)]
    t, r = np.arange(128)[:, None], np.arange(8)[None]
    rows = t // 32 * 16 + t % 32 // 4 + r // 2 % 2 * 8
    columns = r // 4 * 8 + t % 4 * 2 + r % 2
    want = (1 + sum(sums) + 1000 * sums[2])[rows, columns] + (r < 3)
    out = np.zeros((128, 8), np.float32)
    text = text.replace("ROUND", "0")
    return Program(text, "float *out", [out], shared=2560), [out], want


@pytest.mark.parametrize("seed", SEEDS)
def test_wgmma_groups_and_fences(seed: int) -> None:
    """A group that is waited for may be used while the next one runs."""
    program, arrays, want = chain(CHAIN)
    program.run(arrays, seed)
    assert (arrays[0] == want).all()


GROUP_MISTAKES = (
    ("tp_fence_async();", ""),
    ("tp_wgmma_wait<0>();\n", ""),
    ("tp_wgmma_wait<1>();", ""),
    ("tp_wgmma_fence();", ""),
    ("tp_wgmma_fence();", "if (round == 0) tp_wgmma_fence();"),
    ("tp_wgmma_wait<1>();\n    d[round] += 1;", "e[round] += 1;\n    tp_wgmma_wait<1>();"),
    ("tp_barrier();\n    tp_wgmma", "tp_wgmma"),
)


def test_wgmma_group_mistakes_show() -> None:
    """Shared memory is overwritten, or registers are used, while products are under way."""
    assert all(old in CHAIN for old, _ in GROUP_MISTAKES)
    made = [chain(CHAIN.replace(old, new)) for old, new in GROUP_MISTAKES]
    join([program for program, _, _ in made])
    for mistake, (program, arrays, want) in zip(GROUP_MISTAKES, made):
        assert fails_for_some_seed(program, arrays, want), mistake


GEMM = """
  const int bm = blockIdx.x / 2 * 128, bn = blockIdx.x % 2 * 128, group = t / 128;
  uint64_t *const full = (uint64_t *)(shared + 65536), *const empty = full + 2;
  if (t == 0) {
    for (int s = 0; s < 2; s++) {
      tp_mbarrier_init(full + s, 1);
      tp_mbarrier_init(empty + s, 2);
    }
    tp_fence_mbarrier_init();
  }
  tp_barrier();
  if (group == 2) {
    tp_registers_decrease<40>();
    if (t == 256) {
      for (int i = 0; i < 4; i++) {
        const int s = i % 2;
        tp_mbarrier_wait(empty + s, (i / 2 & 1) ^ 1);
        tp_mbarrier_expect(full + s, 32768);
        tp_tma_load(shared + s * 16384, &map0, full + s, i * 64, bm);
        for (int j = 0; j < 2; j++)
          tp_tma_load(shared + 32768 + s * 16384 + j * 8192, &map1, full + s, bn + j * 64, i * 64);
      }
    }
  } else {
    tp_registers_increase<232>();
    float d[64];
    for (int i = 0; i < 4; i++) {
      const int s = i % 2;
      tp_mbarrier_wait(full + s, i / 2 & 1);
      const uint64_t da = tp_descriptor(shared + s * 16384 + group * 8192, 0, 1024, 128);
      const uint64_t db = tp_descriptor(shared + 32768 + s * 16384, 8192, 1024, 128);
      tp_wgmma_fence();
      for (int k = 0; k < 4; k++)
        tp_wgmma_m64n128k16_bf16_bf16_ss_tb(d, tp_descriptor_advance(da, 32 * k),
                                            tp_descriptor_advance(db, 2048 * k), i + k > 0);
      tp_wgmma_commit();
      tp_wgmma_wait<1>();
      if (i && t % 128 == 0) tp_mbarrier_arrive(empty + (i - 1) % 2);
    }
    tp_wgmma_wait<0>();
    tp_barrier(1, 256);
    TpBfloat *const tile = (TpBfloat *)shared;
    const int row = t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
    for (int i = 0; i < 64; i += 2)
      *(uint32_t *)(tile + (row + i / 2 % 2 * 8) * 128 + i / 4 * 8 + column) =
          tp_pack2<TpBfloat>(d[i], d[i + 1]);
    tp_fence_async();
    tp_barrier(1, 256);
    if (t == 0) {
      tp_tma_store(&map2, tile, bn, bm);
      tp_bulk_commit();
      tp_bulk_wait<0>();
    }
  }
"""


def gemm(text: str = GEMM) -> tuple[Program, list[Array], Array]:
    """256 x 256 x 256 of bfloat16 by blocks of 128 x 128, two stages, one producer warp group."""
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-2, 3, (256, 256)).astype(ml_dtypes.bfloat16) for _ in range(2))
    arrays: list[Array] = [a, b, np.zeros((256, 256), ml_dtypes.bfloat16)]
    exact = a.astype(np.float32) @ b.astype(np.float32)
    boxes = [((128, 64), 128), ((64, 64), 128), ((128, 128), 0)]
    maps = [spec_of(x, i, box, swizzle) for i, (x, (box, swizzle)) in enumerate(zip(arrays, boxes))]
    parameters = PARAMETERS.replace("float *out", "TpBfloat *out")
    parameters += ", const __grid_constant__ TpTensorMap map2"
    program = Program(text, parameters, arrays, threads=384, shared=65568, grid=4, maps=maps)
    return program, arrays, exact.astype(ml_dtypes.bfloat16).astype(np.float32)


@pytest.mark.parametrize("seed", range(4))
def test_gemm_with_roles(seed: int) -> None:
    """What a whole kernel looks like; a second or two at most."""
    program, arrays, want = gemm()
    program.run(arrays, seed)
    assert (arrays[2].astype(np.float32) == want).all()


def test_a_stage_that_is_released_too_early_shows() -> None:
    """The product of this round still reads the stage."""
    early = GEMM.replace("if (i && t % 128 == 0) tp_mbarrier_arrive(empty + (i - 1) % 2);",
                         "if (t % 128 == 0) tp_mbarrier_arrive(empty + s);")  # fmt: skip
    assert fails_for_some_seed(*gemm(early))
