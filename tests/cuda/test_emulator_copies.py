"""Copies in the emulator: cp.async, rings of TMA loads, clusters, stores; mistakes with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.cuda.emulated import SEEDS, Array, Program, fails_for_some_seed, join, spec_of

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


Made = tuple[Program, list[Array], Array]
"""A program, its arguments, and what the last of them is afterwards."""


def all_fail(make: Callable[[str], Made], text: str, mistakes: Sequence[tuple[str, str]]) -> None:
    """Every replacement in a text shows for some seed."""
    assert all(old in text for old, _ in mistakes)
    made = [make(text.replace(old, new)) for old, new in mistakes]
    join([program for program, _, _ in made])
    for mistake, (program, arrays, want) in zip(mistakes, made):
        assert fails_for_some_seed(program, arrays, want), mistake


def test_cp_async_mistakes_show() -> None:
    """A wait for too few groups, no wait, no barrier."""
    mistakes = (("wait<1>", "wait<2>"), ("tp_cp_async_wait<0>();", ""), ("tp_barrier();", ""))
    all_fail(cp_async, CP_ASYNC, mistakes)


ARRIVALS = """
  uint64_t *const full = (uint64_t *)(shared + 2048), *const empty = full + 1;
  if (t == 0) {
    tp_mbarrier_init(full, 32);
    tp_mbarrier_init(empty, 96);
  }
  tp_barrier();
  float sum = 0;
  for (int i = 0; i < 4; i++) {
    if (t < 32) {
      tp_mbarrier_wait(empty, (i & 1) ^ 1);
      for (int j = 0; j < 4; j++)
        tp_cp_async<16>(shared + j * 512 + t * 16, x + i * 512 + j * 128 + t * 4);
      tp_mbarrier_arrive_cp_async(full);
    } else {
      tp_mbarrier_wait(full, i & 1);
      for (int j = 0; j < 4; j++) sum += ((float *)shared)[(t * 4 + j) % 512];
      tp_mbarrier_arrive(empty);
    }
  }
  tp_cp_async_wait<0>();
  out[t] = sum;
"""


def arrivals(body: str) -> tuple[Program, list[Array], Array]:
    """A ring of one stage that cp.async fills."""
    arrays = [np.arange(2048, dtype=np.float32), np.zeros(128, np.float32)]
    want = arrays[0].reshape(4, 128, 4).sum((0, 2))
    want[:32] = 0
    return Program(body, "const float *x, float *out", arrays, shared=2064), arrays, want


@pytest.mark.parametrize("seed", SEEDS)
def test_cp_async_arrives_at_an_mbarrier(seed: int) -> None:
    """The phase ends when the copies have landed."""
    program, arrays, want = arrivals(ARRIVALS)
    program.run(arrays, seed)
    assert (arrays[1] == want).all()


def test_an_ordinary_arrival_comes_too_early() -> None:
    """It does not wait for the copies."""
    early = ARRIVALS.replace("arrive_cp_async(full)", "arrive(full)")
    assert fails_for_some_seed(*arrivals(early))


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


RING_MISTAKES = (
    ("tp_mbarrier_wait(full + i % 2, i / 2 & 1);", ""),
    ("tp_mbarrier_wait(empty + i % 2, (i / 2 & 1) ^ 1);", ""),
    ("(i / 2 & 1) ^ 1", "i / 2 & 1"),
    ("expect(full + i % 2, 2048)", "expect(full + i % 2, 1024)"),
    ("expect(full + i % 2, 2048)", "arrive(full + i % 2)"),
    ("tp_fence_mbarrier_init();", ""),
    ("  tp_barrier();", ""),
    ("init(empty + s, 128)", "init(empty + s, 127)"),
    ("init(empty + s, 128)", "init(empty + s, 129)"),
)


def test_ring_mistakes_show() -> None:
    """Waits, parities, counts, bytes and fences that are missing or wrong."""
    all_fail(ring, RING, RING_MISTAKES)


def test_swizzles_of_loads() -> None:
    """Chunks of 16 bytes move by the row, as the PTX manual draws it."""
    made = [swizzled(swizzle) for swizzle in (0, 32, 64, 128)]
    join([program for program, _, _ in made])
    for program, arrays, want in made:
        program.run(arrays)
        assert (arrays[-1] == want).all(), want.shape


def swizzled(swizzle: int) -> Made:
    """16 rows of the width of a swizzle, 0 for none, read as they lie in shared memory."""
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
    return Program(body, parameters, [x, out], shared=2056, maps=maps), [x, out], x


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


MULTICAST_MISTAKES = (
    ("if (i) tp_mbarrier_wait(empty, (i - 1) & 1);", ""),
    ("  tp_cluster_barrier();\n  float", "  tp_barrier();\n  float"),
    ("full, 3, 0", "full, 1, 0"),
    ("if (t < 2) tp_mbarrier_arrive_remote(empty, t);", "if (t < 2) tp_mbarrier_arrive(empty);"),
)


def test_multicast_mistakes_show() -> None:
    """The other block's memory and barriers are taken care of."""
    all_fail(multicast, MULTICAST, MULTICAST_MISTAKES)


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


def test_store_mistakes_show() -> None:
    """No fence, no barrier, no wait, no commit."""
    calls = ("tp_fence_async();", "tp_barrier();", "tp_bulk_wait_read<0>();", "tp_bulk_commit();")
    all_fail(store, STORE, [(call, "") for call in calls])


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
