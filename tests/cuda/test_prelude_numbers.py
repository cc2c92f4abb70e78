"""Conversions of the CUDA prelude, run on the host: those that are integer code or round to odd.

The intrinsics they use are given by the host's rounding modes; the packed conversions themselves
are instructions and need a GPU.
"""

from __future__ import annotations

import ctypes
import subprocess

import ml_dtypes
import numpy as np
import pytest

from tileprof import ir
from tileprof.compiler.codegen import prelude
from tileprof.compiler.cuda.prelude import FOLDER
from tileprof.ir import types
from tileprof.runtime.interpreter import arithmetic, convert

HOST = r"""
#include <fenv.h>
#include <math.h>
// The host's own are other types of this size.
#define int64_t device_int64_t
#define uint64_t device_uint64_t
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __CUDA_ARCH__ 800
static unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
static float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
static unsigned __shfl_sync(unsigned, int x, int) { return x; }
static int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static unsigned long __cvta_generic_to_shared(const void *) { return 0; }
template <class F> static float in_mode(int mode, F compute) {
  fesetround(mode);
  volatile float made = compute();
  fesetround(FE_TONEAREST);
  return made;
}
#define ROUNDINGS(NAME, PARAMETERS, COMPUTE)                                                    \
  static float NAME##z PARAMETERS { return in_mode(FE_TOWARDZERO, [&] { return COMPUTE; }); }   \
  static float NAME##d PARAMETERS { return in_mode(FE_DOWNWARD, [&] { return COMPUTE; }); }     \
  static float NAME##u PARAMETERS { return in_mode(FE_UPWARD, [&] { return COMPUTE; }); }
ROUNDINGS(__fmaf_r, (volatile float a, volatile float b, volatile float c), fmaf(a, b, c))
ROUNDINGS(__double2float_r, (volatile double x), (float)x)
ROUNDINGS(__int2float_r, (volatile int x), (float)x)
ROUNDINGS(__uint2float_r, (volatile unsigned x), (float)x)
ROUNDINGS(__ll2float_r, (volatile long long x), (float)x)
ROUNDINGS(__ull2float_r, (volatile unsigned long long x), (float)x)
#include "numbers.cuh"
#define EACH(NAME, FROM, TO, EXPRESSION)                                          \
  extern "C" void NAME(const FROM *x, TO *y, long long size) {                    \
    for (long long i = 0; i < size; i++) y[i] = EXPRESSION;                       \
  }
EACH(narrow_e4m3, float, uint8_t, (uint8_t)tp_pack2<TpE4m3>(x[i], 0))
EACH(narrow_e5m2, float, uint8_t, (uint8_t)tp_pack2<TpE5m2>(x[i], 0))
EACH(second_e4m3, float, uint8_t, (uint8_t)(tp_pack2<TpE4m3>(0, x[i]) >> 8))
EACH(widen_e4m3, uint8_t, float, tp_value(TpE4m3{x[i]}))
EACH(odd_double, double, float, tp_narrowing(x[i]))
EACH(odd_int, int32_t, float, tp_narrowing(x[i]))
EACH(odd_long, int64_t, float, tp_narrowing(x[i]))
EACH(odd_ulong, uint64_t, float, tp_narrowing(x[i]))
EACH(fma_odd, float, float, tp_fma_odd(x[3 * i], x[3 * i + 1], x[3 * i + 2]))
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """`numbers.cuh` as a library of the host."""
    folder = tmp_path_factory.mktemp("numbers")
    (folder / "host.cpp").write_text(HOST)
    library = folder / "host.so"
    subprocess.run(
        [
            *("g++", "-std=c++20", "-O1", "-frounding-math", "-shared", "-fPIC"),
            *(f"-I{FOLDER}", f"-I{prelude.FOLDER}"),
            *(str(folder / "host.cpp"), "-o", str(library)),
        ],
        check=True,
        timeout=100,
    )
    return ctypes.CDLL(str(library))


def _run(host: ctypes.CDLL, name: str, x: np.ndarray, dtype: object, size: int = 0) -> np.ndarray:
    made = np.empty(size or x.size, dtype)  # type: ignore[call-overload]
    held = np.ascontiguousarray(x)
    getattr(host, name)(
        held.ctypes.data_as(ctypes.c_void_p),
        made.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_longlong(made.size),
    )
    return made  # type: ignore[no-any-return]


def _same(ours: np.ndarray, theirs: np.ndarray) -> None:
    """Equal bits, or both NaN."""
    both = np.isnan(ours.astype(np.float32)) & np.isnan(theirs.astype(np.float32))
    raw = f"u{ours.dtype.itemsize}"
    wrong = np.flatnonzero(~both & (ours.view(raw) != theirs.view(raw)))
    assert wrong.size == 0, (wrong[:5], ours[wrong[:5]], theirs[wrong[:5]])


@pytest.fixture(scope="module")
def floats() -> np.ndarray:
    """Every upper half of a float32, with lower halves at and around ties."""
    low = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    return ((np.arange(1 << 16, dtype=np.uint32) << 16)[:, None] | low).ravel().view(np.float32)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("narrow_e4m3", ml_dtypes.float8_e4m3fn),
        ("second_e4m3", ml_dtypes.float8_e4m3fn),
        ("narrow_e5m2", ml_dtypes.float8_e5m2),
    ],
)
def test_fp8_of_float(host: ctypes.CDLL, floats: np.ndarray, name: str, dtype: type) -> None:
    """Overflow, denormals and ties as the interpreter has them."""
    with np.errstate(all="ignore"):
        _same(_run(host, name, floats, dtype), floats.astype(dtype))


def test_float_of_e4m3(host: ctypes.CDLL) -> None:
    """All 256."""
    bits = np.arange(256, dtype=np.uint8)
    _same(
        _run(host, "widen_e4m3", bits, np.float32),
        bits.view(ml_dtypes.float8_e4m3fn).astype(np.float32),
    )


@pytest.mark.parametrize("target", [types.float16, types.bfloat16, types.float8_e4m3])
@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("odd_double", types.float64),
        ("odd_int", types.int32),
        ("odd_long", types.int64),
        ("odd_ulong", types.uint64),
    ],
)
def test_rounding_once(host: ctypes.CDLL, name: str, source: ir.DType, target: ir.DType) -> None:
    """To odd and then to nearest is to nearest."""
    random = np.random.default_rng(1)
    held = source.to_numpy()
    if source.is_float:
        near = random.standard_normal(4000).astype(target.to_numpy()).astype(np.float64)
        # Around what is halfway between two numbers of the target.
        half = np.ldexp(1.0, np.frexp(near)[1] - {"float16": 12, "bfloat16": 9}.get(target.name, 5))
        x = np.concatenate(
            [near, near + half, np.nextafter(near + half, 9), [np.inf, 1e300, 1e-300]]
        )
    else:
        x = (random.integers(0, 1 << 62, 4000) >> random.integers(0, 62, 4000)).astype(held)
    with np.errstate(all="ignore"):
        ours = _run(host, name, x, np.float32).astype(target.to_numpy())
        _same(ours, np.asarray(convert.cast(x, source, target)))


@pytest.mark.parametrize("dtype", [types.float16, types.bfloat16, types.float8_e5m2])
def test_fma_of_narrow_floats(host: ctypes.CDLL, dtype: ir.DType) -> None:
    """The product and sum of any three numbers of the type are rounded once."""
    random = np.random.default_rng(2)
    held = dtype.to_numpy()
    raw = f"u{held.itemsize}"
    bits = random.integers(0, 1 << 8 * held.itemsize, (60000, 3)).astype(raw)
    x = bits.view(held).astype(np.float32)
    with np.errstate(all="ignore"):
        ours = _run(host, "fma_odd", x.ravel(), np.float32, len(x)).astype(held)
        a, b, c = (np.ascontiguousarray(x[:, k]).astype(held) for k in range(3))
        _same(ours, np.asarray(arithmetic.fma(a, b, c, dtype)))
