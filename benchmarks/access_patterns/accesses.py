"""Patterns of loads, stores and atomics of threads, and of matrices in shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.access_patterns.patterns import (
    LANES,
    Group,
    Lanes,
    Pattern,
    dense,
    drawn,
    masks,
    permutations,
    picked,
    repeats,
    rows,
    swizzled,
)

SHARED_BODIES = {
    "lds4": 4, "lds8": 8, "lds16": 16, "sts4": 4, "sts8": 8, "sts16": 16, "lds2": 2, "sts2": 2,
}  # fmt: skip
MATRICES = ("ldsm1", "ldsm2", "ldsm4", "ldsm4 transposed", "stsm1", "stsm2", "stsm4")
ATOMS = {
    "atoms inc": 4, "atoms add": 4, "atoms add, result": 4, "atoms max": 4, "atoms exchange": 4,
    "atoms cas": 4, "atoms add 64": 8, "atoms add f32": 4, "atoms add f16x2": 4,
}  # fmt: skip
LOADS = {"ldg1": 1, "ldg2": 2, "ldg4": 4, "ldg8": 8, "ldg16": 16}
STORES = {"stg4": 4, "stg8": 8, "stg16": 16}
GLOBAL_ATOMICS = {
    "red add": 4, "red add f32": 4, "red add f16x2": 4, "red add 64": 8, "red add f32x4": 16,
    "atomg add": 4, "atomg cas": 4,
}  # fmt: skip
LOCALS = {"local4": 4, "local8": 8, "local16": 16}
_SOME_LANES = ("1 lanes", "4 lanes", "8 lanes", "9 lanes", "16 lanes", "17 lanes", "31 lanes",
               "even lanes", "from lane 8", "drawn lanes 0")  # fmt: skip


def shared() -> Iterator[Pattern]:
    """Yield loads and stores of shared memory: strides, lanes that share words, partial warps."""
    for body, width in SHARED_BODIES.items():
        wide = width > 4
        for stride in (1, 2, 3, 4, 5, 8, 16, 17, 32) if wide else (1, 2, 3, 8, 32):
            yield _made("shared", body, f"every {stride}", rows(width, 1, stride * width))
        for name, order in (permutations() | repeats()).items():
            if wide or "drawn" in name or "for" in name:
                yield _made("shared", body, name, tuple(each * width for each in order))
        for name, taken in masks().items():
            if name in _SOME_LANES and wide:
                yield _made("shared", body, name, picked(dense(width), taken))
                yield _made("shared", body, f"{name}, every 3",
                            picked(rows(width, 1, 3 * width), taken))  # fmt: skip
        if width == 16:
            for bits in (1, 2, 3):
                yield _made("shared", body, f"swizzle {16 << bits}", swizzled(width, bits))
        for number in range(3):
            yield _made("shared", body, f"drawn in 4096, {number}", drawn(width, 4096, number))


def matrices() -> Iterator[Pattern]:
    """Yield matrices of 8 rows of 16 bytes, by ldmatrix and stmatrix."""
    for body in MATRICES:
        for pitch in (0, 16, 32, 48, 64, 80, 128, 144, 256, 272):
            yield _made("matrices", body, f"pitch {pitch}", rows(16, 1, pitch))
        by_row = rows(16, 1, 128)
        yield _made("matrices", body, "pitch 128, swizzled",
                    tuple(each ^ (each >> 7 & 7) << 4 for each in by_row))  # fmt: skip
        yield _made("matrices", body, "drawn in 8192", drawn(16, 8192, 0))
        # Two matrices side by side, in rows of 32 and 80 bytes.
        for pitch in (32, 80):
            side = tuple(
                lane % 8 * pitch + lane // 8 % 2 * 16 + lane // 16 * 8 * pitch
                for lane in range(LANES)
            )
            yield _made("matrices", body, f"side by side, pitch {pitch}", side)


def shared_atomics() -> Iterator[Pattern]:
    """Yield atomics of shared memory: lanes at one word, and at one bank."""
    for body, width in ATOMS.items():
        some = body in ("atoms max", "atoms exchange", "atoms add, result")
        for name, order in repeats().items():
            if not some or "2" in name or "all" in name:
                yield _made("shared atomics", body, name, tuple(each * width for each in order))
        for count in (2, 3, 8, 32):
            lanes = tuple(lane % count * 128 + lane // count * width for lane in range(LANES))
            yield _made("shared atomics", body, f"{count} words of a bank", lanes)
        yield _made("shared atomics", body, "dense", dense(width))
        for name in () if some else ("1 lanes", "9 lanes", "even lanes"):
            yield _made("shared atomics", body, name, picked(dense(width), masks()[name]))
        words = repeats()["drawn among 8, 1"]
        banks = tuple(each * 32 * width + each % 3 * width for each in words)
        yield _made("shared atomics", body, "drawn words of three banks", banks)


def global_memory() -> Iterator[Pattern]:
    """Yield loads, stores and atomics of global memory."""
    for body, width in (LOADS | STORES | GLOBAL_ATOMICS).items():
        for stride in (1, 2, 3, 8, 9, 32):
            yield _made("global", body, f"every {stride}", rows(width, 1, stride * width))
        for shift in sorted({width, 16, 64}):
            if shift % width == 0:
                yield _made("global", body, f"shift {shift}", rows(width, LANES, 0, shift))
        for name, order in (permutations() | repeats()).items():
            if "0" in name or "2" in name or "all" in name:
                yield _made("global", body, name, tuple(each * width for each in order))
        for name in ("1 lanes", "9 lanes", "even lanes"):
            yield _made("global", body, name, picked(dense(width), masks()[name]))
        for reach in (2048, 65536):
            yield _made("global", body, f"drawn in {reach}", drawn(width, reach, 0))
    for body, width in (("ldg4 twice", 4), ("ldg16 twice", 16)):
        first = dense(width)
        other = {
            "the same": first, "the next sector": rows(width, LANES, 0, 32),
            "in another order": tuple(reversed(first)), "other lines": rows(width, LANES, 0, 8192),
            "the first sector for all": (0,) * LANES,
        }  # fmt: skip
        for name, second in other.items():
            yield Pattern(f"{body}: {name}", "global", body, first, second)


def local() -> Iterator[Pattern]:
    """Yield stores and loads of local memory: a word of each lane's own array."""
    for body, width in LOCALS.items():
        yield _made("local", body, "one place", (0,) * LANES)
        yield _made("local", body, "place of the lane", dense(width))
        yield _made("local", body, "places in turns", tuple(lane % 2 * width for lane in range(32)))
        yield _made("local", body, "drawn", drawn(width, 256, 0))
        for name in ("1 lanes", "9 lanes", "even lanes"):
            yield _made("local", body, name, picked((0,) * LANES, masks()[name]))


def _made(group: Group, body: str, name: str, first: Lanes) -> Pattern:
    # Loads of local memory read what was stored.
    return Pattern(f"{body}: {name}", group, body, first, first)
