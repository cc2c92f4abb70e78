"""Matrix fragments of a warp in the emulator, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.emulated import Array, Program

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
    kinds = [np.dtype(t) for t in (a_type, b_type)]
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
