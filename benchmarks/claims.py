"""Whether suggestions for kernels without a planted defect are right: kernels beside hand repairs.

    python -m benchmarks.claims [--only RE] [--seconds 120] [-o FILE]

In: `CLAIMS`, suggestions for clean kernels of generated splits that have no measured truth.  Out:
JSON with a row for each: the largest difference of both results from a float64 reference, and the
ratio of times, the kernel's by its repair's, over interleaved pairs.  A ratio above 1 is what the
suggestion is worth; at 1 the suggestion is false.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

# `benchmarks/plant.py` is the runner; the package of the same name goes first.
sys.path.append(str(Path(__file__).parent))
FAMILIES: dict[str, Any] = importlib.import_module("plant.generated.families").FAMILIES
__all__ = ["CLAIMS", "INTERPRETED_AS", "Claim", "main"]

FAST_LOGARITHM, FAST_SINE = "libdevice.fast_logf", "libdevice.fast_sinf"
INTERPRETED_AS = {FAST_LOGARITHM: "tl.log", FAST_SINE: "tl.sin"}
"""Triton's names of approximate functions, which its interpreter does not have, and what stands for
them there."""


@dataclass(frozen=True)
class Claim:
    """A suggestion for a kernel as it is, and a repair by hand that takes it."""

    family: str
    rule: str
    repair: str
    """Change that the repair makes, in a few words."""
    edits: tuple[tuple[str, str], ...]
    """Texts that stand once in the kernel's source, and what takes their place."""

    @property
    def name(self) -> str:
        """Name of the row."""
        return f"{self.family}/{self.rule}/{self.repair}"

    def repaired(self) -> str:
        """Return the source with the repair.

        Raises:
            ValueError: a text does not stand in it once.
        """
        text = FAMILIES[self.family].text
        for before, after in self.edits:
            if text.count(before) != 1:
                raise ValueError(f"{self.name}: `{before}` stands {text.count(before)} times")
            text = text.replace(before, after)
        return text


_STAGED = (
    ("    rows, columns = 4, 256\n",
     "    rows, columns = 4, 256\n    held_columns = columns + 8\n"),
    ("        for i, j in T.Parallel(rows, columns):\n",
     "        held = T.alloc_shared((rows + 2, held_columns), T.float32)\n"
     "        T.copy(X[by * rows, bx * columns], held)\n"
     "        for i, j in T.Parallel(rows, columns):\n"),
    ("a, b, c = X[y + line, x], X[y + line, x + 1], X[y + line, x + 2]",
     "a, b, c = held[i + line, j], held[i + line, j + 1], held[i + line, j + 2]"),
)  # fmt: skip
_SELECTED = (
    ("    order = tl.sort(tl.abs(x))\n    most = tl.sum(tl.where(at == block - N // 8, order, 0.0),"
     " 0)\n",
     "    bits = tl.abs(x).to(tl.int32, bitcast=True)\n"
     "    found = tl.full((), 0, dtype=tl.int32)\n"
     "    for bit in tl.static_range(31):\n"
     "        tried = found | (1 << (30 - bit))\n"
     "        enough = tl.sum((bits >= tried).to(tl.int32), 0) >= N // 8\n"
     "        found = tl.where(enough, tried, found)\n"
     "    most = found.to(tl.float32, bitcast=True)\n"),
)  # fmt: skip
_TILES_OF_SUMS = (
    ("    total = tl.zeros((rows,), dtype=tl.float32)\n",
     "    total = tl.zeros((rows, columns), dtype=tl.float32)\n"),
    ("    weights = tl.zeros((rows,), dtype=tl.float32)\n",
     "    weights = tl.zeros((rows, columns), dtype=tl.float32)\n"),
    ("total += tl.sum(weight * value[None, :], 1)", "total += weight * value[None, :]"),
    ("weights += tl.sum(weight, 1)", "weights += weight"),
    ("made = total / weights", "made = tl.sum(total, 1) / tl.sum(weights, 1)"),
)  # fmt: skip
_AHEAD = (
    ("    for e in range(0, kept):\n        place = tl.load(place_ptr + row * kept + e)\n",
     "    place = tl.load(place_ptr + row * kept)\n"
     "    for e in range(0, kept):\n"
     "        after = tl.load(place_ptr + row * kept + tl.minimum(e + 1, kept - 1))\n"),
    ("        sums = tl.dot(a, b, sums)\n",
     "        sums = tl.dot(a, b, sums)\n        place = after\n"),
)  # fmt: skip
_PAIRS = (
    ("    first = (token * heads + h)[:, None] * 2 * half + 2 * p[None, :]\n"
     "    x = tl.load(x_ptr + first).to(tl.float32)\n"
     "    y = tl.load(x_ptr + first + 1).to(tl.float32)\n",
     "    d = tl.arange(0, 2 * half)\n"
     "    pairs = tl.load(x_ptr + (token * heads + h)[:, None] * 2 * half + d[None, :])\n"
     "    x, y = tl.split(tl.reshape(pairs.to(tl.float32), (heads, half, 2)))\n"),
    ("    d = tl.arange(0, 2 * half)\n    out =", "    out ="),
)  # fmt: skip
_RELAXED = (
    ("box * 2, value, mask=real)", "box * 2, value, mask=real, sem=\"relaxed\")"),
    ("box * 2 + 1, 1.0, mask=real)", "box * 2 + 1, 1.0, mask=real, sem=\"relaxed\")"),
)  # fmt: skip
_PADDED = (
    ("a = T.alloc_shared((rows, depth), T.int32)",
     "a = T.alloc_shared((rows, depth + 4), T.int32)"),
    ("b = T.alloc_shared((columns, depth), T.int32)",
     "b = T.alloc_shared((columns, depth + 4), T.int32)"),
)  # fmt: skip
"""Copies fill the padding, too: with the first words of the next step."""
_ROWS_AHEAD = (
    ("        sure = T.alloc_fragment((3, series), T.float32)\n",
     "        sure = T.alloc_fragment((3, series), T.float32)\n"
     "        seen = T.alloc_shared((1, series), T.float32)\n"),
    ("        for t in T.serial(L):\n",
     "        for t in T.Pipelined(L, num_stages=4):\n"
     "            T.copy(X[t, block * series], seen)\n"),
    ("X[t, block * series + i]", "seen[0, i]"),
)  # fmt: skip
_POWERS_ONCE = (
    ("power = T.alloc_shared((columns, depth // 32), T.uint8)",
     "power = T.alloc_shared((columns, blocks), T.uint8)"),
    ("        T.clear(sums)\n",
     "        T.copy(Power[bx * columns, 0], power)\n        T.clear(sums)\n"),
    ("            T.copy(Power[bx * columns, k * (depth // 32)], power)\n", ""),
    ("power[i, j // 32]", "power[i, k * (depth // 32) + j // 32]"),
)  # fmt: skip
_BYTES_COPIED = (
    ("        grey = T.alloc",
     "        raw = T.alloc_shared((rows + 2, columns + 16), T.uint8)\n        grey = T.alloc"),
    ("        for i, j in T.Parallel(rows + 2, columns + 4):\n"
     "            grey[i, j] = T.cast(X[by * rows + i, bx * columns + j], T.float32)\n",
     "        for once in T.Pipelined(1, num_stages=2):\n"
     "            T.copy(X[by * rows + once, bx * columns], raw)\n"
     "            for i, j in T.Parallel(rows + 2, columns + 4):\n"
     "                grey[i, j] = T.cast(raw[i, j], T.float32)\n"),
)  # fmt: skip
_BORDER_APART = (
    ("        for i, j in T.Parallel(rows + 2, columns + 2):\n"
     "            y = T.clamp(by * rows + i - 1, 0, H - 1)\n"
     "            x = T.clamp(bx * columns + j - 1, 0, W - 1)\n"
     "            raw[i, j] = T.cast(Raw[y, x], T.float32)\n",
     "        held = T.alloc_shared((rows, columns), T.float16)\n"
     "        T.copy(Raw[by * rows, bx * columns], held)\n"
     "        for i, j in T.Parallel(2, columns + 2):\n"
     "            y = T.clamp(by * rows + i * (rows + 1) - 1, 0, H - 1)\n"
     "            x = T.clamp(bx * columns + j - 1, 0, W - 1)\n"
     "            raw[i * (rows + 1), j] = T.cast(Raw[y, x], T.float32)\n"
     "        for i, j in T.Parallel(rows, 2):\n"
     "            y = T.min(by * rows + i, H - 1)\n"
     "            x = T.clamp(bx * columns + j * (columns + 1) - 1, 0, W - 1)\n"
     "            raw[i + 1, j * (columns + 1)] = T.cast(Raw[y, x], T.float32)\n"
     "        for i, j in T.Parallel(rows, columns):\n"
     "            y, x = T.min(i, H - 1 - by * rows), T.min(j, W - 1 - bx * columns)\n"
     "            raw[i + 1, j + 1] = T.cast(held[y, x], T.float32)\n"),
)  # fmt: skip
_RESULTS_SHARED = (
    ("        for i, j in T.Parallel(rows, columns):\n",
     "        held = T.alloc_shared((rows, columns), T.float32)\n"
     "        for i, j in T.Parallel(rows, columns):\n"),
    ("                Out[y, x] = T.min(Time[y, x], made)\n",
     "                held[i, j] = T.min(Time[y, x], made)\n"
     "        T.copy(held, Out[by * rows, bx * columns])\n"),
)  # fmt: skip
_SCORES_AHEAD = (
    ("    for n in range(0, N, columns):\n"
     "        across = tl.load(item_ptr + (n + j)[None, :] * dim + d[:, None])\n",
     "    scores = tl.dot(user, tl.load(item_ptr + j[None, :] * dim + d[:, None]))\n"
     "    for n in range(0, N, columns):\n"
     "        after = tl.minimum(n + columns, N - columns)\n"
     "        across = tl.load(item_ptr + (after + j)[None, :] * dim + d[:, None])\n"
     "        later = tl.dot(user, across)\n"),
    ("rating - tl.dot(user, across)", "rating - scores"),
    ("item, step)\n", "item, step)\n        scores = later\n"),
)  # fmt: skip
_GATHERED = (
    ("    for n in range(0, N, block):\n",
     "    held = tl.load(x_ptr + at, mask=at < N, other=0.0)\n    for n in range(0, N, block):\n"),
    ("sums += tl.load(x_ptr + chosen, mask=n + at < N, other=0.0)",
     "sums += tl.where(n + at < N, tl.gather(held, chosen, 0), 0.0)"),
    ("    block = 1024\n", "    block = triton.next_power_of_2(N)\n"),
)  # fmt: skip
_FEATURES_SHARED = (
    ("        T.clear(sums)\n",
     "        feature = T.alloc_shared((samples, F), T.int32)\n"
     "        T.copy(Feature[block * samples, 0], feature)\n        T.clear(sums)\n"),
    ("Table[Feature[block * samples + i, f], j]", "Table[feature[i, f], j]"),
)  # fmt: skip
_FIT_SHARED = (
    ("        T.clear(dots)\n",
     "        held = T.alloc_shared((rows, columns), T.float16)\n        T.clear(dots)\n"),
    ("        T.copy(fit, Out[by * rows, bx * columns])\n",
     "        T.copy(fit, held)\n        T.copy(held, Out[by * rows, bx * columns])\n"),
)  # fmt: skip
_POWERS_OF_TWO_STEPS = (
    ("power = T.alloc_shared((columns, depth // 32), T.uint8)",
     "power = T.alloc_shared((columns, depth // 16), T.uint8)"),
    ("Power[bx * columns, k * (depth // 32)]", "Power[bx * columns, k // 2 * (depth // 16)]"),
    ("power[i, j // 32]", "power[i, k % 2 * (depth // 32) + j // 32]"),
)  # fmt: skip
_WORDS_SHARED = (
    ("    with T.Kernel(T.ceildiv(N, blocks), threads=256) as bx:\n",
     "    with T.Kernel(T.ceildiv(N, blocks), threads=256) as bx:\n"
     "        held = T.alloc_shared((16, blocks), T.uint32)\n"
     "        T.copy(Data[0, bx * blocks], held)\n"),
    ("                    Out[w, counter] = (state[w] + start[w]) ^ Data[w, counter]\n",
     "                    held[w, i] = (state[w] + start[w]) ^ held[w, i]\n"
     "        T.copy(held, Out[0, bx * blocks])\n"),
)  # fmt: skip
_WORDS_ALIGNED = (
    ("word = T.alloc_shared((PAGE + 1,), T.int32)",
     "word = T.alloc_shared((PAGE + 4,), T.int32)"),
    ("        for i in T.Parallel(PAGE + 1):\n"
     "            at = part * PAGE + i - 1\n"
     "            word[i] = T.if_then_else(at >= 0, X[s, T.max(at, 0)], 0)\n",
     "        T.copy(X[s, part * PAGE : (part + 1) * PAGE], word[4 : PAGE + 4])\n"
     "        for i in T.Parallel(1):\n"
     "            at = part * PAGE + i - 1\n"
     "            word[3 + i] = T.if_then_else(at >= 0, X[s, T.max(at, 0)], 0)\n"),
    ("cost(word[i + 1] ^ word[i])", "cost(word[i + 4] ^ word[i + 3])"),
)  # fmt: skip
_ATOMS_IN_PAIRS = (
    ("basis = T.alloc_shared((near, CENTRES)", "basis = T.alloc_shared((2 * near, CENTRES)"),
    ("feature = T.alloc_shared((near, dim)", "feature = T.alloc_shared((2 * near, dim)"),
    ("made = T.alloc_fragment((near, dim)", "made = T.alloc_fragment((2 * near, dim)"),
    ("total = T.alloc_fragment((dim,), T.float32)",
     "held = T.alloc_shared((2 * near, dim), T.float32)\n"
     "        total = T.alloc_fragment((2, dim), T.float32)"),
    ("T.serial(per_block)", "T.serial(per_block // 2)"),
    ("atom = bv * per_block + n", "atom = bv * per_block + 2 * n"),
    ("T.Parallel(near, CENTRES)", "T.Parallel(2 * near, CENTRES)"),
    ("Distance[atom, e]", "Distance[atom + e // near, e % near]"),
    ("            for e, j in T.Parallel(near, dim):\n"
     "                feature[e, j] = Feature[Neighbour[atom, e], j]\n",
     "            for e, j in T.Parallel(2 * near, dim):\n"
     "                feature[e, j] = Feature[Neighbour[atom + e // near, e % near], j]\n"),
    ("            for e, j in T.Parallel(near, dim):\n"
     "                made[e, j] *= T.cast(feature[e, j], T.float32)\n"
     "            T.reduce_sum(made, total, dim=0)\n"
     "            T.copy(total, Message[atom, 0:dim])\n",
     "            for e, j in T.Parallel(2 * near, dim):\n"
     "                held[e, j] = made[e, j] * T.cast(feature[e, j], T.float32)\n"
     "            T.reduce_sum(T.view(held, (2, near, dim)), total, dim=1)\n"
     "            T.copy(total, Message[atom : atom + 2, 0:dim])\n"),
)  # fmt: skip
_ROW_OF_CELLS = (
    ("    roi = pid // per_box\n    cell = pid % per_box\n",
     "    roi = pid // cells\n    row = pid % cells\n"),
    ("    acc = tl.zeros((BLOCK_C,), dtype=tl.float32)\n"
     "    for sub in tl.static_range(4):\n"
     "        y = upper + step_y * (cell // cells + 0.25 + 0.5 * (sub // 2))\n"
     "        x = left + step_x * (cell % cells + 0.25 + 0.5 * (sub % 2))\n"
     "        acc += bilinear(base, y, x, H, W, C, offs_c, mask_c)\n"
     "    tl.store(out_ptr + pid * C + offs_c, (acc * 0.25).to(tl.float16), mask=mask_c)\n",
     "    for column in range(cells):\n"
     "        acc = tl.zeros((BLOCK_C,), dtype=tl.float32)\n"
     "        for sub in tl.static_range(4):\n"
     "            y = upper + step_y * (row + 0.25 + 0.5 * (sub // 2))\n"
     "            x = left + step_x * (column + 0.25 + 0.5 * (sub % 2))\n"
     "            acc += bilinear(base, y, x, H, W, C, offs_c, mask_c)\n"
     "        out = out_ptr + (pid * cells + column) * C + offs_c\n"
     "        tl.store(out, (acc * 0.25).to(tl.float16), mask=mask_c)\n"),
    ("[(box.shape[0] * 49, ", "[(box.shape[0] * 7, "),
)  # fmt: skip
_CHANCE_OK = "1.0 - tl.exp(log_err)"
"""Argument of the logarithm in the kernel of genotypes."""

_RECIPROCALS = (
    ("    sym_ptr, freq_ptr, cum_ptr, out_ptr, length,",
     "    sym_ptr, freq_ptr, cum_ptr, per_ptr, out_ptr, length,"),
    ("        c = tl.load(cum_ptr + s, mask=ok, other=0).to(tl.uint32)\n",
     "        c = tl.load(cum_ptr + s, mask=ok, other=0).to(tl.uint32)\n"
     "        per = tl.load(per_ptr + s, mask=ok, other=1.0)\n"),
    ("state = ((state // f) << BITS) + state % f + c",
     "quotient = (state.to(tl.float64) * per + 1e-5).to(tl.uint32)\n"
     "        state = (quotient << BITS) + (state - quotient * f) + c"),
    ("        sym, freq, cum, out, length,",
     "        sym, freq, cum, 1.0 / freq.double(), out, length,"),
)  # fmt: skip
"""The fraction of a state by a frequency of at most 4,096 is 0, or at least 2^-12."""
_DIVIDED_ONCE = (
    ("state = ((state // f) << BITS) + state % f + c",
     "quotient = state // f\n"
     "        state = (quotient << BITS) + (state - quotient * f) + c"),
)  # fmt: skip
_SINES_APART = (
    ("    acc = tl.zeros((BLOCK_I, BLOCK_J), dtype=tl.float32)\n",
     "    sines = tl.zeros((BLOCK_J,), dtype=tl.float32)\n"
     "    cosines = tl.zeros((BLOCK_J,), dtype=tl.float32)\n"),
    ("        pull = tl.sin(other[None, :] - own[:, None])\n"
     "        acc += tl.where((start + j)[None, :] < N, pull, 0.0)\n",
     "        sines += tl.where(start + j < N, tl.sin(other), 0.0)\n"
     "        cosines += tl.where(start + j < N, tl.cos(other), 0.0)\n"),
    ("coupling * tl.sum(acc, 1) / N",
     "coupling * (tl.cos(own) * tl.sum(sines, 0) - tl.sin(own) * tl.sum(cosines, 0)) / N"),
)  # fmt: skip
_WORDS_STORED_TOGETHER = (
    ("        for r, c in T.Parallel(rows, words):\n",
     "        born = T.alloc_shared((rows, words), T.uint32)\n"
     "        for r, c in T.Parallel(rows, words):\n"),
    ("Next[y, x] = two[0]", "born[r, c] = two[0]"),
    ("    return Next\n",
     "        T.copy(born, Next[by * rows, bx * words])\n    return Next\n"),
)  # fmt: skip
_ROW_COPIED_AHEAD = (
    ("row = T.alloc_shared((GROUP,), T.float32)", "row = T.alloc_shared((1, GROUP), T.float32)"),
    ("for j in T.serial(GROUP):\n            T.copy(U[j, 0:GROUP], row)",
     "for j in T.Pipelined(GROUP, num_stages=3):\n            T.copy(U[j, 0], row)"),
    ("/ row[j]", "/ row[0, j]"),
    ("column[i] * row[c]", "column[i] * row[0, c]"),
)  # fmt: skip
_ROWS_COPIED_ONCE = (
    ("row = T.alloc_shared((GROUP,), T.float32)",
     "row = T.alloc_shared((GROUP, GROUP), T.float32)"),
    ("        for j in T.serial(GROUP):\n            T.copy(U[j, 0:GROUP], row)\n",
     "        T.copy(U, row)\n        for j in T.serial(GROUP):\n"),
    ("/ row[j]", "/ row[j, j]"),
    ("column[i] * row[c]", "column[i] * row[j, c]"),
)  # fmt: skip
_ROW_KEPT = (
    ("        coef = T.alloc_shared((4,), T.float32)\n",
     "        coef = T.alloc_shared((4,), T.float32)\n"
     "        kept = T.alloc_shared((2, N), T.float16)\n"),
    ("                g = u + guidance * (c - u)\n",
     "                kept[0, s * chunk + i] = Cond[b, s * chunk + i]\n"
     "                kept[1, s * chunk + i] = Uncond[b, s * chunk + i]\n"
     "                g = u + guidance * (c - u)\n"),
    ("c, u = T.cast(Cond[b, at], T.float32), T.cast(Uncond[b, at], T.float32)",
     "c, u = T.cast(kept[0, at], T.float32), T.cast(kept[1, at], T.float32)"),
)  # fmt: skip


def _logarithm(name: str, written: str) -> tuple[tuple[str, str], ...]:
    """Return edits that take another function than Triton's logarithm of `name`."""
    imported = "import triton.language as tl\n"
    more = "from triton.language.extra import libdevice\n" if "libdevice" in written else ""
    return (imported, imported + more), (f"tl.log({name})", written)


def _points(count: int, warps: int) -> tuple[tuple[str, str], ...]:
    """Return edits after which a block of `warps` warps samples `count` points."""
    return (
        ("point = tl.program_id(0)", f"point = tl.program_id(0) * {count} + tl.arange(0, {count})"),
        ("tl.zeros((channels,)", f"tl.zeros(({count}, channels)"),
        ("* W + column) * C + c", "* W + column)[:, None] * C + c[None, :]"),
        ("mask=real & (c < C)", "mask=real[:, None] & (c < C)[None, :]"),
        (".to(tl.float32) * near", ".to(tl.float32) * near[:, None]"),
        ("point * C + c, total.to(tl.bfloat16), mask=c < C",
         "point[:, None] * C + c[None, :], total.to(tl.bfloat16), mask=(c < C)[None, :]"),
        ("[(batch * points,)]", f"[(batch * points // {count},)]"),
        ("num_warps=1", f"num_warps={warps}"),
    )  # fmt: skip


CLAIMS = (
    Claim("tile-black_scholes", "slow-math", "root by its reciprocal",
          (("T.sqrt(Years[at])", "(Years[at] * T.rsqrt(Years[at]))"),)),
    Claim("triton-noisy_top", "slow-math", "outer logarithm approximate",
          (("import triton.language as tl\n",
            "import triton.language as tl\nfrom triton.language.extra import libdevice\n"),
           ("-tl.log(-tl.log(chance))", f"-{FAST_LOGARITHM}(-tl.log(chance))"))),
    Claim("tile-median_filter", "narrow-access", "rows in shared memory", _STAGED),
    Claim("triton-peak_filter", "narrow-access", "an element a thread",
          (("rows, columns = 8, 128", "rows, columns = 1, 128"),)),
    Claim("triton-clip_rows", "bank-conflict", "selection in place of a sort", _SELECTED),
    Claim("triton-clip_rows", "bank-conflict", "one warp",
          (("block, num_warps=4)", "block, num_warps=1)"),)),
    Claim("triton-kernel_regression", "early-reduction", "tiles of sums", _TILES_OF_SUMS),
    Claim("triton-bsr_product", "redundant-traffic", "twice as many columns",
          (("    columns = 128\n", "    columns = 256\n"),
           ("columns, num_warps=4", "columns, num_warps=8"))),
    Claim("triton-bsr_product", "pipeline-too-shallow", "numbers loaded ahead", _AHEAD),
    Claim("triton-routed_product", "redundant-traffic", "twice as many columns",
          (("rows, columns, depth = 64, 128, 64", "rows, columns, depth = 64, 256, 64"),
           ("depth, num_warps=4", "depth, num_warps=8"))),
    Claim("triton-bucket_bias", "slow-math", "logarithm approximate",
          (("import triton.language as tl\n",
            "import triton.language as tl\nfrom triton.language.extra import libdevice\n"),
           ("8 + (tl.log(", f"8 + ({FAST_LOGARITHM}("))),
    Claim("triton-axial_rope", "uncoalesced-global", "pairs loaded together", _PAIRS),
    Claim("triton-voxel_sums", "epilogue-drain", "relaxed atomics", _RELAXED),
    Claim("triton-grid_sample", "occupancy-limited", "four points in four warps", _points(4, 4)),
    Claim("triton-grid_sample", "narrow-access", "two points in a warp", _points(2, 1)),
    Claim("triton-grid_sample", "slow-math", "constant divisor",
          (("points, channels: tl.constexpr", "points: tl.constexpr, channels: tl.constexpr"),)),
    Claim("tile-kalman", "occupancy-limited", "blocks of 128 threads",
          (("series = 256", "series = 128"), ("threads=256", "threads=128"))),
    Claim("tile-kalman", "occupancy-limited", "rows loaded ahead", _ROWS_AHEAD),
    Claim("tile-binary_product", "bank-conflict", "padded rows", _PADDED),
    Claim("tile-ssim", "bank-conflict", "columns in turns",
          (("a, b = x[i * 8 + tap // 8, j * 8 + tap % 8], y[i * 8 + tap // 8, j * 8 + tap % 8]",
            "at = j * 8 + (tap + j // 4) % 8\n"
            "                a, b = x[i * 8 + tap // 8, at], y[i * 8 + tap // 8, at]"),)),
    Claim("tile-ssim", "bank-conflict", "halves of a row in turns",
          (("a, b = x[i * 8 + tap // 8, j * 8 + tap % 8], y[i * 8 + tap // 8, j * 8 + tap % 8]",
            "at = j * 8 + (tap // 4 + j // 4) % 2 * 4 + tap % 4\n"
            "                a, b = x[i * 8 + tap // 8, at], y[i * 8 + tap // 8, at]"),)),
    Claim("triton-weighted_bag", "bank-conflict", "one warp", (("num_warps=4", "num_warps=1"),)),
    Claim("tile-sobel", "narrow-access", "rows of whole vectors",
          (("rows, columns = 8, 256", "rows, columns = 8, 496"),
           ("T.alloc_shared((rows + 2, columns + 4)", "T.alloc_shared((rows + 2, columns + 16)"),
           ("T.Parallel(rows + 2, columns + 4)", "T.Parallel(rows + 2, columns + 16)"))),
    Claim("tile-sobel", "narrow-access", "bytes copied asynchronously", _BYTES_COPIED),
    Claim("tile-requantise_product", "pipeline-too-shallow", "four stages",
          (("num_stages=3", "num_stages=4"),)),
    Claim("tile-requantise_product", "pipeline-too-shallow", "six stages of half the depth",
          (("128, 128, 128", "128, 128, 64"), ("num_stages=3", "num_stages=6"))),
    Claim("tile-mxfp4_product", "missed-async-copy", "powers copied once", _POWERS_ONCE),
    Claim("triton-row_ranks", "occupancy-limited", "half as many others",
          (("columns, others = 128, 32", "columns, others = 128, 16"),)),
    Claim("triton-adapter_rows", "occupancy-limited", "half as deep",
          (("rows, columns, depth = 16, 128, 128", "rows, columns, depth = 16, 128, 64"),)),
    Claim("tile-mxfp4_product", "missed-async-copy", "powers of two steps copied each step",
          _POWERS_OF_TWO_STEPS),
    Claim("tile-mxfp4_product", "missed-async-copy", "twice as deep, two stages",
          (("128, 128, 64", "128, 128, 128"), ("num_stages=3", "num_stages=2"))),
    Claim("triton-factor_step", "redundant-traffic", "items transposed, not loaded again",
          (("        across = tl.load(item_ptr + (n + j)[None, :] * dim + d[:, None])\n", ""),
           ("tl.dot(user, across)", "tl.dot(user, tl.trans(item))"))),
    Claim("triton-factor_step", "wgmma-serialized", "twice as many columns",
          (("rows, columns = 64, 64", "rows, columns = 64, 128"),
           ("(n + j)[None, :] * dim + d[:, None]",
            "(n + j)[None, :] * dim + d[:, None], mask=(n + j)[None, :] < N, other=0.0"),
           ("(n + j)[:, None] * dim + d[None, :]",
            "(n + j)[:, None] * dim + d[None, :], mask=(n + j)[:, None] < N, other=0.0"),
           ("tl.load(rating_ptr + i[:, None] * N + (n + j)[None, :])",
            "tl.load(rating_ptr + i[:, None] * N + (n + j)[None, :],"
            " mask=(n + j)[None, :] < N, other=0.0)"))),
    Claim("triton-factor_step", "wgmma-serialized", "scores a step ahead", _SCORES_AHEAD),
    Claim("tile-cross_product_layer", "pipeline-too-shallow", "four stages",
          (("num_stages=3", "num_stages=4"),)),
    Claim("tile-cross_product_layer", "pipeline-too-shallow", "six stages of half the depth",
          (("128, 128, 64", "128, 128, 32"), ("num_stages=3", "num_stages=6"))),
    Claim("tile-eikonal", "narrow-access", "results through shared memory", _RESULTS_SHARED),
    Claim("tile-demosaic", "narrow-access", "border apart from a tile of vectors", _BORDER_APART),
    Claim("triton-bit_edits", "narrow-access", "four letters a thread",
          (("block = 256", "block = 512"),)),
    Claim("triton-bit_edits", "narrow-access", "eight letters a thread",
          (("num_warps=4", "num_warps=1"),)),
    Claim("triton-garch", "slow-math", "logarithm approximate",
          _logarithm("spread", f"{FAST_LOGARITHM}(spread)")),
    Claim("triton-garch", "slow-math", "logarithm to the base of 2",
          _logarithm("spread", "(tl.log2(spread) * 0.6931472)")),
    Claim("triton-mu_law", "slow-math", "logarithm approximate",
          _logarithm("1.0 + 255.0 * loud", f"{FAST_LOGARITHM}(1.0 + 255.0 * loud)")),
    Claim("triton-mu_law", "slow-math", "logarithm to the base of 2",
          _logarithm("1.0 + 255.0 * loud", "(tl.log2(1.0 + 255.0 * loud) * 0.6931472)")),
    Claim("tile-linkage", "epilogue-drain", "results through shared memory", _FIT_SHARED),
    Claim("tile-linkage", "epilogue-drain", "results through shared memory, two stages",
          (*_FIT_SHARED, ("num_stages=3", "num_stages=2"))),
    Claim("triton-bootstrap_means", "uncoalesced-global", "gathered from shared memory", _GATHERED),
    Claim("tile-mahalanobis", "redundant-traffic", "twice as many rows",
          (("rows, turns = 64, 8", "rows, turns = 128, 8"), ("threads=128", "threads=256"))),
    Claim("tile-mahalanobis", "pipeline-too-shallow", "three stages",
          (("num_stages=2", "num_stages=3"),)),
    Claim("tile-factorisation", "uncoalesced-global", "numbers in shared memory", _FEATURES_SHARED),
    Claim("triton-rolling_corr", "narrow-access", "an element a thread",
          (("block = 512", "block = 128"),)),
    Claim("triton-rolling_corr", "narrow-access", "an element a thread, as many warps more",
          (("num_warps=4", "num_warps=16"),)),
    Claim("tile-chacha_words", "narrow-access", "words through shared memory", _WORDS_SHARED),
    Claim("tile-gorilla_bits", "narrow-access", "words copied to where they are aligned",
          _WORDS_ALIGNED),
    Claim("tile-quotient_rows", "narrow-access", "half as many threads",
          (("threads=128", "threads=64"),)),
    Claim("tile-quotient_rows", "narrow-access", "twice as many rows",
          (("BLOCK_N = 32", "BLOCK_N = 64"),)),
    Claim("triton-codebook_matvec", "narrow-access", "half as many warps",
          (("num_warps=4", "num_warps=2"),)),
    Claim("triton-codebook_matvec", "narrow-access", "half as many rows, twice as many codes",
          (("BLOCK_M, BLOCK_G = 16, 32", "BLOCK_M, BLOCK_G = 8, 64"),)),
    Claim("triton-codebook_matvec", "occupancy-limited", "half as many rows",
          (("BLOCK_M, BLOCK_G = 16, 32", "BLOCK_M, BLOCK_G = 8, 32"),)),
    Claim("tile-farthest_points", "occupancy-limited", "1,024 threads",
          (("threads=512", "threads=1024"),)),
    Claim("tile-weno_flux", "occupancy-limited", "512 threads", (("threads=256", "threads=512"),)),
    Claim("tile-weno_flux", "occupancy-limited", "half as many cells",
          (("cells = 1024", "cells = 512"),)),
    Claim("tile-arm_poses", "occupancy-limited", "a pose a thread",
          (("BLOCK: int = 256", "BLOCK: int = 128"),)),
    Claim("tile-arm_poses", "occupancy-limited", "a pose a thread, as many poses a block",
          (("threads=128", "threads=256"),)),
    Claim("tile-edge_messages", "tensor-core-missed", "two atoms at a time", _ATOMS_IN_PAIRS),
    Claim("tile-edge_messages", "spill-hot", "256 threads", (("threads=128", "threads=256"),)),
    Claim("tile-arc_margin", "pipeline-too-shallow", "four stages",
          (("num_stages=3", "num_stages=4"),)),
    Claim("tile-arc_margin", "pipeline-too-shallow", "six stages of half the depth",
          (("128, 128, 64", "128, 128, 32"), ("num_stages=3", "num_stages=6"))),
    Claim("triton-nlms_filter", "bank-conflict", "one warp", (("num_warps=4", "num_warps=1"),)),
    Claim("triton-nlms_filter", "bank-conflict", "one warp of half as many channels",
          (("BLOCK = 64", "BLOCK = 32"), ("num_warps=4", "num_warps=1"))),
    Claim("triton-ldpc_checks", "bank-conflict", "one warp of a quarter of the words",
          (("BLOCK_W = 256", "BLOCK_W = 64"), ("num_warps=4", "num_warps=1"))),
    Claim("triton-roi_align", "small-block", "one warp", (("num_warps=2", "num_warps=1"),)),
    Claim("triton-roi_align", "small-block", "a row of cells a program", _ROW_OF_CELLS),
    Claim("triton-genotype_calls", "slow-math", "logarithm approximate",
          _logarithm(_CHANCE_OK, f"{FAST_LOGARITHM}({_CHANCE_OK})")),
    Claim("triton-genotype_calls", "slow-math", "logarithm to the base of 2",
          _logarithm(_CHANCE_OK, f"(tl.log2({_CHANCE_OK}) * 0.6931472)")),
    Claim("triton-edge_relax", "epilogue-drain", "relaxed atomics",
          (("mask=mask & (through < known))",
            "mask=mask & (through < known), sem=\"relaxed\")"),)),
    Claim("triton-kuramoto_pull", "slow-math", "sine approximate",
          (("import triton.language as tl\n",
            "import triton.language as tl\nfrom triton.language.extra import libdevice\n"),
           ("tl.sin(other", f"{FAST_SINE}(other"))),
    Claim("triton-kuramoto_pull", "slow-math", "sine and cosine of each phase", _SINES_APART),
    Claim("tile-dora_norms", "pipeline-too-shallow", "four stages",
          (("num_stages=3", "num_stages=4"),)),
    Claim("tile-dora_norms", "pipeline-too-shallow", "six stages",
          (("num_stages=3", "num_stages=6"),)),
    Claim("tile-life_words", "narrow-access", "results through shared memory",
          _WORDS_STORED_TOGETHER),
    Claim("triton-soft_demap", "wasted-lanes", "two warps", (("num_warps=4", "num_warps=2"),)),
    Claim("triton-soft_demap", "wasted-lanes", "twice as many numbers",
          (("BLOCK = 64", "BLOCK = 128"),)),
    Claim("tile-small_cholesky", "wasted-lanes", "one warp", (("threads=128", "threads=32"),)),
    Claim("tile-small_cholesky", "wasted-lanes", "two warps", (("threads=128", "threads=64"),)),
    Claim("tile-radiation_columns", "narrow-access", "four columns a thread",
          (("threads=128", "threads=32"),)),
    Claim("tile-radiation_columns", "narrow-access", "two columns a thread",
          (("columns = 128", "columns = 256"),)),
    Claim("tile-png_filters", "occupancy-limited", "half as wide",
          (("span, pixel = 1024, 4", "span, pixel = 512, 4"),)),
    Claim("tile-png_filters", "occupancy-limited", "512 threads",
          (("threads=256", "threads=512"),)),
    Claim("triton-fm_search", "narrow-access", "four reads a thread",
          (("BLOCK = 128", "BLOCK = 512"),)),
    Claim("triton-fm_search", "narrow-access", "four reads a thread of one warp",
          (("num_warps=4", "num_warps=1"),)),
    Claim("triton-rans_encode", "slow-math", "reciprocals from a table", _RECIPROCALS),
    Claim("triton-rans_encode", "slow-math", "one division", _DIVIDED_ONCE),
    Claim("tile-gptq_columns", "missed-async-copy", "rows three iterations ahead",
          _ROW_COPIED_AHEAD),
    Claim("tile-gptq_columns", "missed-async-copy", "all rows copied once", _ROWS_COPIED_ONCE),
    Claim("tile-expert_slots", "bank-conflict", "a column more",
          (("hot = T.alloc_shared((tokens, E)", "hot = T.alloc_shared((tokens, E + 1)"),)),
    Claim("tile-guided_step", "redundant-traffic", "both rows kept in shared memory", _ROW_KEPT),
    Claim("tile-guided_step", "occupancy-limited", "512 threads",
          (("threads=256", "threads=512"),)),
    Claim("tile-guided_step", "occupancy-limited", "half as long chunks",
          (("chunk = 1024", "chunk = 512"),)),
)  # fmt: skip
"""Suggestions of which arithmetic alone does not say whether they are true."""


def rows(claims: Sequence[Claim], seconds: float) -> Iterator[dict[str, Any]]:
    """Yield a row for each claim, until the time is over; a failure is a row with `error`."""
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as scratch:
        for at, each in enumerate(claims):
            row: dict[str, Any] = {"claim": each.name}
            if time.monotonic() > end:
                yield {**row, "error": "not reached in the time given"}
                continue
            try:
                row |= _measured(each, FAMILIES[each.family], Path(scratch) / str(at))
            except Exception as error:  # one repair that fails leaves the others
                row["error"] = f"{type(error).__name__}: {error}"[:300]
            yield row


def _measured(claim: Claim, family: Any, folder: Path) -> dict[str, Any]:
    """Compare results and times of a kernel and its repair on the GPU."""
    measure: Any = importlib.import_module("plant.measure")
    problems: Any = importlib.import_module("plant.generated.problems")
    work, shape = problems.problem(family), dict(family.shape)
    inputs = problems.inputs_of(family, shape, "cuda")
    expected = work.reference(*inputs)
    runs, apart = {}, {}
    for twin, text in (("defective", family.text), ("fixed", claim.repaired())):
        module = problems.imported(family, text, folder / twin / f"{family.path.stem}.py")
        problems.reset(work, inputs)
        runs[twin] = partial(problems.called, family, module, inputs)
        apart[twin] = problems.difference(runs[twin](), expected)
    del expected
    correct = all(each <= work.limit for each in apart.values())
    return {"differences": apart, "correct": correct, **measure._times(runs)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; the exit status is 1 where a row failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.claims")
    parser.add_argument("--only", default="", help="a regular expression over names of claims")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args(arguments)
    measuring: Any = importlib.import_module("measuring")
    result: dict[str, Any] = {"circumstances": measuring.circumstances(), "rows": []}
    for row in rows([each for each in CLAIMS if re.search(args.only, each.name)], args.seconds):
        result["rows"].append(row)
        said = row.get("error") or f"{row['ratio']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
        print(f"{row['claim']:<60} {said}", flush=True)
        if args.output:
            args.output.write_text(json.dumps(result, indent=1) + "\n")
    return int(any("error" in each for each in result["rows"]))


if __name__ == "__main__":
    sys.exit(main())
