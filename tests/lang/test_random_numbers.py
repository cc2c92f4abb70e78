"""Random numbers depend on the seed, the sequence and the place in it, and on nothing else."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D103
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.lang.checks import same_everywhere
from tileprof.errors import KernelError, UnsupportedPython

same = partial(same_everywhere, debug=False)
"""Compare every device's outputs; random numbers are not drawn as plain Python."""


def words(counter, key):
    """Return four words of Philox with ten rounds, from the paper's description."""
    a, b, c, d = counter
    k, m = key
    for _ in range(10):
        x, y = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = y >> 32 ^ b ^ k, y & 0xFFFFFFFF, x >> 32 ^ d ^ m, x & 0xFFFFFFFF
        k, m = k + 0x9E3779B9 & 0xFFFFFFFF, m + 0xBB67AE85 & 0xFFFFFFFF
    return a, b, c, d


def number(seed, sequence, position):
    """Return one number of a sequence."""
    quarter = position >> 2
    halves = (v for w in (quarter, sequence, seed) for v in (w & 0xFFFFFFFF, w >> 32))
    a, b, c, d, *key = halves
    return words((a, b, c, d), key)[position & 3]


def numbers(seed, sequence, positions):
    """Return several numbers of a sequence."""
    return np.array([number(seed, sequence, p) for p in positions], np.uint32)


def test_the_reference_gives_known_answers():
    """Two of the known answers that the authors of Philox publish."""
    ones = 0xFFFFFFFF
    assert words((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert words((ones,) * 4, (ones,) * 2) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)


@tileprof.jit
def points(seed: int, first: int):
    """Two draws of each point, one of them in a loop, and a second loop over points."""
    out = T.empty((2, 4, 8, 3), "uint32")
    more = T.empty((2, 5), "uint32")
    with T.Kernel(2, threads=32) as block:
        T.rng_init(seed, off=first)
        for i, j in T.Parallel(4, 8):
            out[block, i, j, 0] = T.rng_rand()
            for k in T.serial(2):
                out[block, i, j, k + 1] = T.rng_rand()
        for i in T.Parallel(5):
            more[block, i] = T.rng_rand()
    return out, more


@pytest.mark.parametrize(("seed", "first"), [(42, 0), (2**40 + 7, 2**34 + 1)])
def test_points_take_numbers_in_their_order(seed, first):
    """All points draw once before any draws again."""
    out, more = np.empty((2, 4, 8, 3), np.uint32), np.empty((2, 5), np.uint32)
    for block in range(2):
        held = numbers(seed, block, range(first, first + 3 * 32 + 5))
        out[block] = held[:96].reshape(3, 4, 8).transpose(1, 2, 0)
        more[block] = held[96:]
    same(points, [], out, more, seed=seed, first=first)


@tileprof.jit
def repeated(S, seed: int):
    """Draws outside of points and in loops whose length is known at launch only."""
    S: T.Tensor((3,), "int32")
    out = T.empty((3, 4, 8), "uint32")
    single = T.empty((3, 5), "uint32")
    with T.Kernel(3, threads=32) as block:
        T.rng_init(seed, S[block])
        single[block, 0] = T.rng_rand()
        for k in T.serial(T.min(S[block], 4)):
            for i in T.Parallel(8):
                out[block, k, i] = T.rng_rand()
            if k == 1:
                continue
            single[block, k + 1] = T.rng_rand()
        single[block, 4] = T.rng_rand()
    return out, single


def test_loops_go_on_where_they_were():
    """An iteration takes the numbers behind those of the one before."""
    sequences = np.array([4, 4, 4], np.int32)
    held = numbers(9, 4, range(40))
    out = np.stack([held[1:9], held[10:18], held[18:26], held[27:35]])
    single = held[[0, 9, 0, 26, 36]]
    single[2] = 0

    for device in ("interpreter", "cpu"):
        with tileprof.device(device):
            got, one = repeated(sequences, 9)
        one[:, 2] = 0  # not written
        np.testing.assert_array_equal(got, np.stack([out] * 3))
        np.testing.assert_array_equal(one, np.stack([single] * 3))


@tileprof.jit
def of_threads(n: int):
    """Each thread has a sequence."""
    out = T.empty((2, 8, 6), "uint32")
    with T.Kernel(2, threads=8) as block:
        t = T.get_thread_binding()
        T.rng_init(7)
        out[block, t, 0] = T.rng_rand()
        for k in T.serial(n):
            out[block, t, k + 1] = T.rng_rand()
        out[block, t, 5] = T.rng_rand()
    return out


def test_threads_have_sequences_of_their_own():
    """The numbers are those that cuRAND gives to the thread of that number."""
    expected = np.stack([numbers(7, s, range(6)) for s in range(16)]).reshape(2, 8, 6)
    same(of_threads, [], expected, n=4)


@tileprof.jit
def floats():
    """Every distribution."""
    out = T.empty((2, 4096), "float32")
    wide = T.empty((2, 4096), "float64")
    with T.Kernel(1, threads=128):
        T.rng_init(1)
        for i in T.Parallel(4096):
            out[0, i] = T.rng_rand_float()
            out[1, i] = T.rng_rand_float(dist="normal")
            wide[0, i] = T.rng_rand_float(64)
            wide[1, i] = T.rng_rand_float(64, "normal")
    return out, wide


def test_floats_have_their_distribution():
    """Uniform numbers fill (0, 1]; normal ones have their mean and variance."""
    with tileprof.device("cpu"):
        narrow, wide = floats()
    first = numbers(1, 0, range(64)).astype(np.float64)
    np.testing.assert_allclose(narrow[0, :64], (first + 0.5) / 2**32, rtol=1e-6)
    for uniform, normal in (narrow, wide):
        assert 0 < uniform.min() < uniform.max() <= 1
        np.testing.assert_allclose([uniform.mean(), uniform.var()], [1 / 2, 1 / 12], atol=0.01)
        np.testing.assert_allclose([normal.mean(), normal.var()], [0, 1], atol=0.06)
        assert len(np.unique(uniform)) > 4090


@tileprof.jit
def without_seed():
    out = T.empty((8,), "uint32")
    with T.Kernel(1):
        for i in T.Parallel(8):
            out[i] = T.rng_rand()
    return out


@tileprof.jit
def other_generator():
    out = T.empty((8,), "uint32")
    with T.Kernel(1):
        T.rng_init(1, generator="curandStateXORWOW_t")
        out[0] = T.rng_rand()
    return out


@tileprof.jit
def unknown_length():
    out = T.empty((8,), "uint32")
    with T.Kernel(1):
        T.rng_init(1)
        for i in T.Parallel(8):
            for k in T.serial(i):
                out[k] = T.rng_rand()
    return out


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (without_seed, "before `T.rng_init`"),
        (other_generator, "the generator 'curandStateXORWOW_t'"),
        (unknown_length, "in a loop inside of `T.Parallel` whose length is known only when"),
    ],
)
def test_what_has_no_number_is_refused(kernel, message):
    """The error is at the author's line and says what to write."""
    with pytest.raises(KernelError, match=message) as caught, tileprof.device("interpreter"):
        kernel()
    assert caught.value.location is not None
    assert caught.value.hint


def test_plain_python_draws_no_numbers(monkeypatch):
    """Running line by line says where the kernel does run."""
    monkeypatch.setenv("TILEPROF_DEBUG", "1")
    with pytest.raises(UnsupportedPython, match=r"T\.rng_init"):
        points(1, 0)
