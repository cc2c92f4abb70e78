"""The emulator runs right kernels right for every seed, and shows what is wrong in wrong ones."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.emulator import EmulationError, Printed, emulate
from tests.emulator.building import INCLUDE
from tileprof import ir
from tileprof.compiler import codegen
from tileprof.compiler.cuda.prelude import FOLDER, with_dependencies
from tileprof.compiler.cuda.source import Argument, CudaSource, LaunchSpec, TensorMapSpec

SEEDS = range(8)
Array = np.ndarray[Any, Any]


class Program:
    """A hand-written text with one launch.

    `arguments`: a pointer for each array, then a map for each spec.
    """

    def __init__(
        self, body: str, parameters: str, arrays: Sequence[Array], *, threads: int = 128,
        shared: int = 0, grid: int = 1, cluster: int = 1, maps: Sequence[TensorMapSpec] = (),
        report: bool = False, before: str = "",
    ) -> None:  # fmt: skip
        value = ir.Constant(grid, ir.dtype("index")).result
        arguments = [Argument("pointer", i) for i in range(len(arrays))]
        arguments += [Argument("map", i) for i in range(len(maps))]
        arguments += [Argument("report", 0)] * report
        headers = (
            "base", "numbers", "functions", "memory", "barriers", "async", "shuffle", "matrix",
            "wgmma", "atomics", "report", "elementwise",
        )  # fmt: skip
        texts = with_dependencies(f"{h}.cuh" for h in headers)
        includes = "".join(f'#include "{name}"\n' for name, _ in texts)
        launch = f'extern "C" __global__ void __launch_bounds__({threads}) kernel_0({parameters})'
        prologue = "TP_SHARED_MEMORY(shared);\nconst int t = threadIdx.x;\n"
        text = f"{includes}{before}\n{launch} {{\n{prologue}{body}\n}}\n"
        spec = LaunchSpec(
            "kernel_0", tuple(arguments), tuple(maps), (value,), threads, shared, cluster
        )
        self.source = CudaSource("kernel", text, texts, (spec,), ())
        params = tuple(
            ir.Param(f"p{i}", ir.BufferType(a.shape, ir.dtype(a.dtype.name), "global"))
            for i, a in enumerate(arrays)
        )
        owner = value.owner
        assert owner is not None
        body_block = ir.Block([ir.Value(p.type) for p in params], [owner])
        self.kernel = ir.Kernel("kernel", params, (), body_block)

    def run(self, arrays: Sequence[Array], seed: int = 0) -> list[Printed]:
        """Run on arrays, in place."""
        return emulate(self.source, self.kernel, arrays, seed=seed)


def fails_for_some_seed(
    program: Program, arrays: Sequence[Array], want: Array, tolerance: float = 0
) -> bool:
    """Whether the last array comes out wrong, or the emulator complains, for one of the seeds."""
    for seed in SEEDS:
        fresh = [a.copy() for a in arrays]
        try:
            program.run(fresh, seed)
        except EmulationError:
            return True
        if not np.allclose(fresh[-1].astype(float), want, rtol=tolerance, atol=tolerance):
            return True
    return False


# -- shuffles, shared memory, barriers

REDUCTION = """
  float *const partial = (float *)shared;
  float sum = x[blockIdx.x * 128 + t];
  for (int by = 16; by; by /= 2) sum += tp_shuffle_xor(sum, by);
  if (t % 32 == 0) partial[t / 32] = sum;
  tp_barrier();
  if (t == 0) out[blockIdx.x] = partial[0] + partial[1] + partial[2] + partial[3];
"""


def reduction(body: str) -> tuple[Program, list[Array]]:
    """Three blocks that add up 128 numbers each."""
    arrays = [np.arange(384, dtype=np.float32), np.zeros(3, np.float32)]
    program = Program(body, "const float *x, float *out", arrays, shared=16, grid=3)
    return program, arrays


@pytest.mark.parametrize("seed", SEEDS)
def test_block_reduction(seed: int) -> None:
    """Shuffles, shared memory and a barrier."""
    program, (x, out) = reduction(REDUCTION)
    program.run([x, out], seed)
    assert (out == x.reshape(3, 128).sum(1)).all()


def test_a_missing_barrier_shows() -> None:
    """Without the barrier some thread reads what is not written yet."""
    program, arrays = reduction(REDUCTION.replace("tp_barrier();", ""))
    want = arrays[0].reshape(3, 128).sum(1)
    assert fails_for_some_seed(program, arrays, want)


def run_alone(body: str, **more: Any) -> Array:
    """A text that writes 128 numbers to `out`."""
    out = np.zeros(128, np.int32)
    Program(body, "int *out", [out], **{"shared": 1024, **more}).run([out])
    return out


def message_of(body: str, **more: Any) -> str:
    """What the emulator says of a text that it must not accept."""
    with pytest.raises(EmulationError) as caught:
        run_alone(body, **more)
    return str(caught.value)


def test_votes_scans_and_named_barriers() -> None:
    """The rest of a warp's and of a block's meetings."""
    scans = run_alone("out[t] = tp_warp_scan<TpSum, 32>(1) + 100 * tp_any(t % 32 == 3);")
    assert (scans == 101 + np.arange(128) % 32).all()
    votes = run_alone("""
      bool all = true;
      for (int i = 0; i < 5; i++) all = tp_barrier_any(t == i) && !tp_barrier_all(t == i) && all;
      if (t < 64) tp_barrier(1, 64);
      else tp_barrier(2, 64);
      out[t] = all;""")
    assert votes.all()


def test_a_deadlock_says_who_waits_where() -> None:
    """Two warps wait for a third one, the others for them."""
    text = message_of("if (t < 64) tp_barrier(1, 96);\nelse tp_barrier();")
    assert "deadlock" in text
    assert "threads 0-63: tp_barrier 1: 64 of 96 threads are there" in text
    assert "threads 64-127: tp_barrier 0" in text


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("tp_barrier(1, 40);", "whole warps"),
        ("if (t < 64) tp_barrier(1, 64); else tp_barrier(1, 128);", "while others wait there"),
        ("if (t % 2) tp_warp_barrier(); else tp_any(true);", "while lane"),
        ("out[t] = *(volatile int *)(8l << 40);", "which is not there"),
        ("shared[1024] = 0; out[0] = shared[0];", "its shared memory, which has 1024"),
        ("int v[4]; tp_load_vector(v, (const int *)(shared + 8)); out[t] = v[0];", "not aligned"),
        ("tp_mbarrier_arrive((uint64_t *)shared);", "was not initialised"),
        ("tp_tma_load_multicast(0, 0, 0, 0, 0);", "to no block"),
        ("__trap();", "__trap()"),
    ],
)
def test_what_a_gpu_would_not_survive(body: str, says: str) -> None:
    """Each ends the launch with a message."""
    assert says in message_of(body)


def test_writes_around_an_array_are_seen() -> None:
    """One element past the end."""
    assert "memory around `p0` was written" in message_of("if (t == 0) out[128] = 1;")


def test_failures_and_prints_reach_the_report() -> None:
    """The prelude's own `report.cuh` runs here."""
    out = np.zeros(128, np.int32)
    body = "if (t == 5) tp_print(report, 3, 2.5f, t, 7);\nif (t == 9) tp_fail(report, 4, 11, -2);"
    program = Program(body, "int *out, TpReport *report", [out], report=True)
    with pytest.raises(EmulationError) as caught:
        program.run([out])
    failure = caught.value.failure
    assert failure is not None
    assert (failure.place, failure.thread, failure.values[:3]) == (4, 9, (11, -2, 0))
    quiet = Program(body.partition("\n")[0], "int *out, TpReport *report", [out], report=True)
    word = int(np.float32(2.5).view(np.int32))
    assert quiet.run([out]) == [Printed(3, 0, 5, (5, 7, word))]


def test_a_variable_in_static_shared_memory() -> None:
    """One for each block."""
    out = np.zeros(512, np.int32)
    body = """
      TP_SHARED_VARIABLE(int, told);
      if (t == 7) told = blockIdx.x;
      tp_cluster_barrier();
      out[blockIdx.x * 128 + t] = told;"""
    Program(body, "int *out", [out], grid=4, cluster=2).run([out], 1)
    assert (out == np.arange(512) // 128).all()


def test_atomics_of_every_width() -> None:
    """All threads add to one element, in shared and in global memory."""
    arrays: list[Array] = [np.zeros(4, np.float16), np.zeros(2, np.int32)]
    body = """
      int *const count = (int *)shared;
      if (t == 0) *count = 0;
      tp_barrier();
      tp_atomic<TpAdd>(half + 1, 1.0f);
      tp_atomic<TpAdd>(count, 2);
      tp_atomic<TpLarger>(out + 1, t);
      tp_barrier();
      if (t == 0) out[0] = *count;
    """
    Program(body, "TpHalf *half, int *out", arrays, shared=16).run(arrays)
    assert arrays[0].tolist() == [0, 128, 0, 0]
    assert arrays[1].tolist() == [256, 127]


FUNCTION = re.compile(r"\b(tp_\w+)\s*\(")
INSIDE = {"tp_odd", "tp_atomic_word", "tp_wgmma_hold_one"}


def preprocessed(header: Path, *folders: Path) -> str:
    """A header, what it includes, and macros expanded."""
    command = ["g++", "-E", "-P", "-x", "c++", "-D__CUDA_ARCH__=900"]
    command += [f"-I{folder}" for folder in folders] + [str(header)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("header", sorted(p.name for p in FOLDER.glob("*.cuh")))
def test_nothing_of_the_prelude_is_missing(header: str, tmp_path: Path) -> None:
    """Headers with instructions have a counterpart with the same functions; others run as they
    are."""
    (tmp_path / "generated_wgmma.h").touch()
    (tmp_path / header).write_text((FOLDER / header).read_text())
    own = INCLUDE / header if (INCLUDE / header).exists() else tmp_path / header
    text = preprocessed(own, tmp_path, INCLUDE, codegen.prelude.FOLDER)
    assert not re.search(r"\basm\b", text), f"{header} needs a counterpart"
    wanted = FUNCTION.findall(preprocessed(FOLDER / header, FOLDER))
    assert set(wanted) - set(FUNCTION.findall(text)) <= INSIDE


# -- copies

CP_ASYNC = """
  float *const tile = (float *)shared;
  for (int i = 0; i < 4; i++) {
    tp_cp_async<16>(tile + i * 512 + 4 * t, x + i * 512 + 4 * t, t < 100 || i < 3);
    tp_cp_async_commit();
  }
  tp_cp_async_wait<1>();
  tp_barrier();
  for (int i = 0; i < 1536; i += 128) out[i + t] = tile[i + (t + 64) % 128];
  tp_cp_async_wait<0>();
  tp_barrier();
  for (int i = 1536; i < 2048; i += 128) out[i + t] = tile[i + (t + 64) % 128];
"""


def cp_async(body: str) -> tuple[Program, list[Array], Array]:
    """2,048 numbers, each 128 turned by half; the last 112 are not valid."""
    x = np.arange(1, 2049, dtype=np.float32)
    arrays = [x, np.zeros(2048, np.float32)]
    want = x.copy()
    want[1536 + 400 :] = 0
    turned = np.roll(want.reshape(16, 128), 64, axis=1).reshape(-1)
    return Program(body, "const float *x, float *out", arrays, shared=8192), arrays, turned


@pytest.mark.parametrize("seed", SEEDS)
def test_cp_async_groups(seed: int) -> None:
    """Waits for all groups but one, then for all."""
    program, arrays, want = cp_async(CP_ASYNC)
    program.run(arrays, seed)
    assert (arrays[1] == want).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [("wait<1>", "wait<2>"), ("tp_cp_async_wait<0>();", ""), ("tp_barrier();", "")],
)
def test_cp_async_mistakes_show(old: str, new: str) -> None:
    """A wait for too few groups, no wait, no barrier."""
    program, arrays, want = cp_async(CP_ASYNC.replace(old, new))
    assert fails_for_some_seed(program, arrays, want)


def spec_of(array: Array, param: int, box: tuple[int, ...], swizzle: Any = 0) -> TensorMapSpec:
    """The map of a contiguous array."""
    strides = tuple(s // array.itemsize for s in array.strides)
    dtype = ir.dtype(array.dtype.name)
    return TensorMapSpec(param, dtype, array.shape, strides, box, swizzle)


RING = """
  uint64_t *const full = (uint64_t *)(shared + 4096), *const empty = full + 2;
  if (t == 0) {
    for (int s = 0; s < 2; s++) {
      tp_mbarrier_init(full + s, 1);
      tp_mbarrier_init(empty + s, 128);
    }
    tp_fence_mbarrier_init();
  }
  tp_barrier();
  if (t >= 128) {
    for (int i = 0; i < 7; i++) {
      tp_mbarrier_wait(empty + i % 2, (i / 2 & 1) ^ 1);
      if (tp_elect()) {
        tp_mbarrier_expect(full + i % 2, 2048);
        tp_tma_load(shared + i % 2 * 2048, &map0, full + i % 2, 0, i * 16);
      }
      tp_warp_barrier();
    }
  } else {
    float sum = 0;
    for (int i = 0; i < 7; i++) {
      tp_mbarrier_wait(full + i % 2, i / 2 & 1);
      const float *const tile = (const float *)(shared + i % 2 * 2048);
      for (int j = 0; j < 4; j++) sum += tile[(t * 5 + j) % 128 * 4 + j];
      tp_mbarrier_arrive(empty + i % 2);
    }
    out[t] = sum;
  }
"""


def ring(body: str) -> tuple[Program, list[Array], Array]:
    """A ring of two stages, filled by one warp; the tensor ends inside of the last box."""
    x = np.random.default_rng(0).integers(0, 99, (100, 32)).astype(np.float32)
    arrays = [x, np.zeros(128, np.float32)]
    tiles = np.vstack([x, np.zeros((12, 32), np.float32)]).reshape(7, 512)
    places = [[(t * 5 + j) % 128 * 4 + j for j in range(4)] for t in range(128)]
    want = np.array([tiles[:, p].sum() for p in places])
    map_ = spec_of(x, 0, (16, 32))
    parameters = "const float *x, float *out, const __grid_constant__ TpTensorMap map0"
    return Program(body, parameters, arrays, threads=160, shared=4128, maps=[map_]), arrays, want


@pytest.mark.parametrize("seed", SEEDS)
def test_ring_of_tma_loads(seed: int) -> None:
    """Producer and consumers meet at mbarriers only; elements outside are 0."""
    program, arrays, want = ring(RING)
    program.run(arrays, seed)
    assert (arrays[1] == want).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tp_mbarrier_wait(full + i % 2, i / 2 & 1);", ""),
        ("tp_mbarrier_wait(empty + i % 2, (i / 2 & 1) ^ 1);", ""),
        ("(i / 2 & 1) ^ 1", "i / 2 & 1"),
        ("expect(full + i % 2, 2048)", "expect(full + i % 2, 1024)"),
        ("expect(full + i % 2, 2048)", "arrive(full + i % 2)"),
        ("tp_fence_mbarrier_init();", ""),
        ("  tp_barrier();", ""),
        ("init(empty + s, 128)", "init(empty + s, 127)"),
        ("init(empty + s, 128)", "init(empty + s, 129)"),
    ],
)
def test_ring_mistakes_show(old: str, new: str) -> None:
    """Waits, parities, counts, bytes and fences that are missing or wrong."""
    assert old in RING
    program, arrays, want = ring(RING.replace(old, new))
    assert fails_for_some_seed(program, arrays, want)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_swizzles_of_loads(swizzle: int) -> None:
    """Chunks of 16 bytes move by the row, as the PTX manual draws it."""
    columns = (swizzle or 128) // 4
    x = np.arange(16 * columns, dtype=np.float32).reshape(16, columns)
    out = np.zeros_like(x)
    step, mask = {0: (1, 0), 32: (4, 1), 64: (2, 3), 128: (1, 7)}[swizzle]
    body = f"""
      uint64_t *const full = (uint64_t *)(shared + 2048);
      if (t == 0) {{
        tp_mbarrier_init(full, 1);
        tp_fence_mbarrier_init();
        tp_mbarrier_expect(full, {x.nbytes});
        tp_tma_load(shared, &map0, full, 0, 0);
      }}
      tp_barrier();
      tp_mbarrier_wait(full, 0);
      for (int i = t; i < {x.size}; i += 128) {{
        const int row = i / {columns}, chunk = i % {columns} / 4;
        const int there = chunk ^ (row / {step} & {mask});
        out[i] = ((float *)shared)[row * {columns} + there * 4 + i % 4];
      }}
    """
    parameters = "const float *x, float *out, const __grid_constant__ TpTensorMap map0"
    maps = [spec_of(x, 0, x.shape, swizzle)]
    Program(body, parameters, [x, out], shared=2056, maps=maps).run([x, out])
    assert (out == x).all()


MULTICAST = """
  uint64_t *const full = (uint64_t *)(shared + 2048), *const empty = full + 1;
  if (t == 0) {
    tp_mbarrier_init(full, 1);
    tp_mbarrier_init(empty, 2);
    tp_fence_mbarrier_init();
  }
  tp_cluster_barrier();
  float sum = 0;
  for (int i = 0; i < 3; i++) {
    if (t == 0) {
      tp_mbarrier_expect(full, 2048);
      if (i) tp_mbarrier_wait(empty, (i - 1) & 1);
      tp_tma_load_multicast(shared + tp_cluster_rank() * 1024, &map0, full, 3, 0,
                            (i * 2 + tp_cluster_rank()) * 8);
    }
    tp_mbarrier_wait(full, i & 1);
    for (int j = 0; j < 4; j++) sum += ((float *)shared)[j * 128 + t];
    tp_barrier();
    if (t < 2) tp_mbarrier_arrive_remote(empty, t);
  }
  out[blockIdx.x * 128 + t] = sum;
  tp_cluster_barrier();
"""


def multicast(body: str) -> tuple[Program, list[Array], Array]:
    """Two clusters of two blocks, each of which loads a half for both."""
    x = np.random.default_rng(1).integers(0, 99, (48, 32)).astype(np.float32)
    arrays = [x, np.zeros(512, np.float32)]
    want = np.tile(x.reshape(12, 128).sum(0), 4)
    parameters = "const float *x, float *out, const __grid_constant__ TpTensorMap map0"
    maps = [spec_of(x, 0, (8, 32))]
    return (
        Program(body, parameters, arrays, shared=2064, grid=4, cluster=2, maps=maps),
        arrays,
        want,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_multicast_in_a_cluster(seed: int) -> None:
    """What one block loads arrives in both, and at the barriers of both."""
    program, arrays, want = multicast(MULTICAST)
    program.run(arrays, seed)
    assert (arrays[1] == want).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if (i) tp_mbarrier_wait(empty, (i - 1) & 1);", ""),
        ("  tp_cluster_barrier();\n  float", "  tp_barrier();\n  float"),
        ("full, 3, 0", "full, 1, 0"),
        (
            "if (t < 2) tp_mbarrier_arrive_remote(empty, t);",
            "if (t < 2) tp_mbarrier_arrive(empty);",
        ),
    ],
)
def test_multicast_mistakes_show(old: str, new: str) -> None:
    """The other block's memory and barriers are taken care of."""
    assert old in MULTICAST
    program, arrays, want = multicast(MULTICAST.replace(old, new))
    assert fails_for_some_seed(program, arrays, want)


STORE = """
  // Each warp writes 16 rows of 64 halves, 8 x 8 matrices by stmatrix.
  const int lane = t % 32, warp = t / 32;
  for (int i = 0; i < 4; i++) {
    uint32_t r[4];
    for (int m = 0; m < 4; m++) {
      const int row = 16 * warp + m % 2 * 8 + lane / 4, column = 16 * i + m / 2 * 8 + lane % 4 * 2;
      r[m] = tp_pack2<TpHalf>(x[row * 64 + column], x[row * 64 + column + 1]);
    }
    const int row = 16 * warp + lane % 16, chunk = 2 * i + lane / 16;
    tp_stmatrix_x4(shared + row * 128 + (chunk ^ row % 8) * 16, r);
  }
  tp_fence_async();
  tp_barrier();
  if (t == 0) {
    tp_tma_store(&map0, shared, 0, 0);
    tp_bulk_commit();
    tp_bulk_wait_read<0>();
  }
  tp_barrier();
  shared[t] = 0;
"""


def store(body: str) -> tuple[Program, list[Array], Array]:
    """64 x 64 numbers as halves, through swizzled shared memory; two rows end outside."""
    x = np.random.default_rng(2).integers(0, 99, (64, 64)).astype(np.float32)
    arrays: list[Array] = [x, np.zeros((62, 64), np.float16)]
    parameters = "const float *x, TpHalf *out, const __grid_constant__ TpTensorMap map0"
    maps = [spec_of(arrays[1], 1, (64, 64), 128)]
    return Program(body, parameters, arrays, shared=8192, maps=maps), arrays, x[:62]


@pytest.mark.parametrize("seed", SEEDS)
def test_stmatrix_and_tma_store(seed: int) -> None:
    """What lies outside of the tensor is not stored."""
    program, arrays, want = store(STORE)
    program.run(arrays, seed)
    assert (arrays[1] == want).all()


@pytest.mark.parametrize(
    "old", ["tp_fence_async();", "tp_barrier();", "tp_bulk_wait_read<0>();", "tp_bulk_commit();"]
)
def test_store_mistakes_show(old: str) -> None:
    """No fence, no barrier, no wait, no commit."""
    program, arrays, want = store(STORE.replace(old, ""))
    assert fails_for_some_seed(program, arrays, want)


def test_tensor_reduction() -> None:
    """Two blocks add to the same tensor."""
    out = np.ones((8, 32), np.float32)
    body = """
      for (int i = t; i < 256; i += 128) ((float *)shared)[i] = i;
      tp_fence_async();
      tp_barrier();
      if (t == 0) {
        tp_tma_reduce_add(&map0, shared, 0, 0);
        tp_bulk_commit();
        tp_bulk_wait<0>();
      }"""
    parameters = "float *out, const __grid_constant__ TpTensorMap map0"
    maps = [spec_of(out, 0, (8, 32))]
    Program(body, parameters, [out], shared=1024, grid=2, maps=maps).run([out])
    assert (out == 1 + 2 * np.arange(256).reshape(8, 32)).all()


# -- fragments of a warp

MMA = """
  const int lane = t % 32, warp = t / 32;
  TpHalf *const sa = (TpHalf *)shared, *const sb = sa + 64 * 32;
  for (int i = t; i < 64 * 32; i += 128) {
    sa[i] = a[i];
    sb[i] = b[i];
  }
  tp_barrier();
  float d[8][4] = {};
  for (int k = 0; k < 32; k += 16) {
    uint32_t ra[4];
    tp_ldmatrix_x4(ra, sa + (16 * warp + lane % 16) * 32 + k + lane / 16 * 8);
    for (int n = 0; n < 8; n++) {
      uint32_t rb[2];
      tp_ldmatrix_trans_x2(rb, sb + (k + lane % 16) * 64 + n * 8);
      tp_mma_m16n8k16_f16(d[n], ra, rb);
    }
  }
  for (int n = 0; n < 8; n++)
    for (int i = 0; i < 4; i++)
      out[(16 * warp + lane / 4 + i / 2 * 8) * 64 + n * 8 + lane % 4 * 2 + i % 2] = d[n][i];
"""


@pytest.mark.parametrize("seed", range(3))
def test_ldmatrix_and_mma(seed: int) -> None:
    """64 x 64 x 32 of halves, B row-major in shared memory and so transposed on the way."""
    rng = np.random.default_rng(3)
    a = rng.integers(-4, 5, (64, 32)).astype(np.float16)
    b = rng.integers(-4, 5, (32, 64)).astype(np.float16)
    out = np.zeros((64, 64), np.float32)
    parameters = "const TpHalf *a, const TpHalf *b, float *out"
    Program(MMA, parameters, [a, b, out], shared=8192).run([a, b, out], seed)
    assert (out == a.astype(np.float32) @ b.astype(np.float32)).all()


@pytest.mark.parametrize(
    ("name", "a_type", "b_type"),
    [
        ("m16n8k16_bf16", "bfloat16", "bfloat16"),
        ("m16n8k8_tf32", "float32", "float32"),
        ("m16n8k32_s8", "int8", "int8"),
        ("m16n8k32_u8_s8", "uint8", "int8"),
        ("m16n8k32_e4m3", "float8_e4m3fn", "float8_e4m3fn"),
        ("m16n8k32_e5m2_e4m3", "float8_e5m2", "float8_e4m3fn"),
    ],
)
def test_mma_of_every_type(name: str, a_type: str, b_type: str) -> None:
    """Registers lie as the PTX manual says: 4 bytes of neighbours along k in each."""
    rng = np.random.default_rng(4)
    kinds = [np.dtype(getattr(ml_dtypes, t, t)) for t in (a_type, b_type)]
    k = 32 // kinds[0].itemsize
    low = 0 if "u8" in name else -4
    a = rng.integers(low, 5, (16, k)).astype(kinds[0])
    b = rng.integers(-4, 5, (8, k)).astype(kinds[1])
    sums = "int32_t" if kinds[0].kind in "iu" else "float"
    out = np.zeros((16, 8), np.int32 if sums == "int32_t" else np.float32)
    body = f"""
      const uint32_t *const wa = (const uint32_t *)a, *const wb = (const uint32_t *)b;
      const int g = t / 4, c = t % 4;
      uint32_t ra[4] = {{wa[g * 8 + c], wa[g * 8 + 64 + c], wa[g * 8 + c + 4], wa[g * 8 + 68 + c]}};
      uint32_t rb[2] = {{wb[g * 8 + c], wb[g * 8 + c + 4]}};
      {sums} d[4] = {{}};
      tp_mma_{name}(d, ra, rb);
      for (int i = 0; i < 4; i++) out[(g + i / 2 * 8) * 8 + c * 2 + i % 2] = d[i];
    """
    arrays: list[Array] = [a.view(np.uint8), b.view(np.uint8), out]
    parameters = f"const void *a, const void *b, {sums} *out"
    Program(body, parameters, arrays, threads=32).run(arrays)
    assert (out == a.astype(np.float32) @ b.astype(np.float32).T).all()


def test_mma_of_doubles() -> None:
    """8 x 8 x 4."""
    rng = np.random.default_rng(5)
    a, b, out = rng.random((8, 4)), rng.random((4, 8)), np.zeros((8, 8))
    body = """
      double d[2] = {};
      tp_mma_m8n8k4_f64(d, a + t / 4 * 4 + t % 4, b + t % 4 * 8 + t / 4);
      for (int i = 0; i < 2; i++) out[t / 4 * 8 + t % 4 * 2 + i] = d[i];
    """
    arrays = [a, b, out]
    Program(body, "const double *a, const double *b, double *out", arrays, threads=32).run(arrays)
    assert np.allclose(out, a @ b, rtol=1e-14)


# -- products of a warp group

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


@pytest.mark.parametrize("n", [64, 128])
@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_wgmma_layouts(swizzle: int, a_transposed: bool, b_transposed: bool, n: int) -> None:
    """Both operands from shared memory, each K-major or M- or N-major, in every swizzle."""
    operands = Operand("a", 64, swizzle, a_transposed), Operand("b", n, swizzle, b_transposed)
    program, arrays, want = wgmma(*operands)
    program.run(arrays, n + a_transposed)
    assert (arrays[2] == want).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("registers", [False, True])
def test_wgmma_for_every_seed(seed: int, registers: bool) -> None:
    """A from shared memory or from registers."""
    operands = Operand("a", 64, 128, False), Operand("b", 64, 128, True)
    program, arrays, want = wgmma(*operands, registers)
    program.run(arrays, seed)
    assert (arrays[2] == want).all()


@pytest.mark.parametrize(
    ("old", "new", "registers"),
    [
        ("tp_wgmma_wait<0>();", "", False),
        ("tp_wgmma_wait<0>();", "tp_wgmma_wait<1>();", False),
        ("tp_wgmma_commit();", "", False),
        ("tp_wgmma_fence();", "", False),
        ("tp_wgmma_fence();", "", True),
        ("tp_mbarrier_wait(full, 0);", "", False),
        ("for (int k = 0; k < 4; k++)", "if (t < 96) for (int k = 0; k < 4; k++)", False),
        ("k < 4;", "k < (t < 64 ? 3 : 4);", False),
        ("k > 0", "t != 5", False),
    ],
)
def test_wgmma_mistakes_show(old: str, new: str, registers: bool) -> None:
    """Waits, commits and fences that lack, and warps that do not take part."""
    assert old in WGMMA or old == "k > 0"
    operands = Operand("a", 64, 128, False), Operand("b", 64, 128, False)
    text = WGMMA.replace("PRODUCT", "PRODUCT;").replace(old, new)
    program, arrays, want = wgmma(*operands, registers, text)
    if old == "k > 0":
        body = program.source.text.replace(old, new)
        program.source = replace(program.source, text=body)
    assert fails_for_some_seed(program, arrays, want)


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


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tp_fence_async();", ""),
        ("tp_wgmma_wait<0>();\n", ""),
        ("tp_wgmma_wait<1>();", ""),
        ("tp_wgmma_fence();", ""),
        ("tp_wgmma_fence();", "if (round == 0) tp_wgmma_fence();"),
        ("tp_wgmma_wait<1>();\n    d[round] += 1;", "e[round] += 1;\n    tp_wgmma_wait<1>();"),
        ("tp_barrier();\n    tp_wgmma", "tp_wgmma"),
    ],
)
def test_wgmma_group_mistakes_show(old: str, new: str) -> None:
    """Shared memory is overwritten, or registers are used, while products are under way."""
    assert old in CHAIN
    program, arrays, want = chain(CHAIN.replace(old, new))
    assert fails_for_some_seed(program, arrays, want)


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
