# mypy: ignore-errors
# ruff: noqa: ANN001, ANN202, SIM102
"""Kernels that sum rows in loops, put together from words, and what they compute by NumPy.

A part of a kernel is done once, in a loop, in a branch of the program, or in a loop in a loop; it
is a row of words, in order:

    sum      add the sums of the rows of this turn's tile to the totals
    abs      add the sums of absolute values
    odd      the same as `sum`, in odd turns
    join     sum the rows apart, and add that to the totals times numbers of this turn
    fma      the same in one operation, of floats
    shown    the same as `join`, and write what was summed to a row of the result
    flip     the same as `join`, and change the tile's sign before the sums are added
    peek     the same as `join`, and write the totals to a row of the result at once
    scale    times numbers of this turn, one a row
    negate   times -1
    clear    begin anew
    use      write the totals to their row of the result
    leave    leave the loop in turn 2
    next     leave out the rest of odd turns
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.passes import prove_bounds, simplify

__all__ = ["JUMPS", "PLACES", "TURNS", "WORDS", "SumKernel"]

PLACES = ("once", "loop", "branch", "nested")
WORDS = (
    "sum",
    "abs",
    "odd",
    "join",
    "fma",
    "shown",
    "flip",
    "peek",
    "scale",
    "negate",
    "clear",
    "use",
)
JUMPS = ("leave", "next")
"""At most one in a part; they are of its loop."""
TURNS = 4


@dataclass(frozen=True)
class SumKernel:
    """One of them."""

    parts: tuple[tuple[str, tuple[str, ...]], ...]
    """Where each is done, and its words."""
    rows: int = 16
    columns: int = 32
    threads: int = 64
    dtype: str = "float32"
    """Of the tiles."""
    totals: str = "float32"
    start: int = 0
    """What totals are filled with."""

    def kernel(self) -> ir.Kernel:
        """After the common passes."""
        return prove_bounds(simplify(tileprof.compile(_sums(self)).program.kernel))

    def arguments(self, seed: int = 0) -> list[np.ndarray]:
        """Tiles and factors, such that no sum is too large for float32 to be exact; results."""
        rng = np.random.default_rng(seed)
        x = rng.integers(-3, 4, (TURNS, self.rows, self.columns))
        factors = rng.integers(-1, 2, x.shape[:2])
        out = np.full((len(self.parts) + 1, self.rows), 77)
        totals = ir.dtype(self.totals).to_numpy()
        return [
            x.astype(ir.dtype(self.dtype).to_numpy()),
            factors.astype(totals),
            out.astype(totals),
        ]

    def expected(self, arguments: list[np.ndarray]) -> np.ndarray:
        """The result, in float64."""
        tiles, factors, out = (np.asarray(a, np.float64) for a in arguments)
        model = _Model(tiles, factors, out.copy(), np.full(self.rows, float(self.start)))
        for number, (place, words) in enumerate(self.parts):
            for _ in range(2 if place == "nested" else 1):
                for turn in range(TURNS if place in ("loop", "nested") else 1):
                    if not model.turn(words, turn, number):  # it left the loop
                        break
        model.out[-1] = model.total
        return model.out


@dataclass
class _Model:
    tiles: np.ndarray
    factors: np.ndarray
    out: np.ndarray
    total: np.ndarray

    def turn(self, words, turn, number):
        """One turn; whether there is another."""
        tile = self.tiles[turn]
        for word in words:
            match word:
                case "sum":
                    self.total = self.total + tile.sum(1)
                case "abs":
                    self.total = self.total + abs(tile).sum(1)
                case "odd":
                    self.total = self.total + tile.sum(1) * (turn % 2)
                case "join" | "fma" | "shown" | "flip" | "peek":
                    sums = tile.sum(1)
                    self.total = self.total * self.factors[turn] + sums
                    if word in ("shown", "peek"):
                        self.out[number] = sums if word == "shown" else self.total
                    if word == "flip":
                        tile = -tile
                case "scale":
                    self.total = self.total * self.factors[turn]
                case "negate":
                    self.total = -self.total
                case "clear":
                    self.total = self.total * 0
                case "use":
                    self.out[number] = self.total
                case "leave" if turn == 2:
                    return False
                case "next" if turn % 2:
                    return True
        return True


def _sums(form):
    rows, columns = form.rows, form.columns

    @T.prim_func
    def main(
        X: T.Tensor((TURNS, rows, columns), form.dtype),
        S: T.Tensor((TURNS, rows), form.totals),
        Y: T.Tensor((len(form.parts) + 1, rows), form.totals),
    ):
        with T.Kernel(1, threads=form.threads) as bx:
            x = T.alloc_fragment((rows, columns), form.dtype)
            factor = T.alloc_fragment((rows,), form.totals)
            total = T.alloc_fragment((rows,), form.totals)
            part = T.alloc_fragment((rows,), form.totals)
            shown = T.alloc_fragment((rows,), form.totals)

            @T.macro
            def steps(words, k, number):
                for word in words:
                    if word == "sum":
                        T.reduce_sum(x, total, dim=1, clear=False)
                    if word == "abs":
                        T.reduce_abssum(x, total, dim=1, clear=False)
                    if word == "odd":
                        if k % 2 == 1:
                            T.reduce_sum(x, total, dim=1, clear=False)
                    if word == "join":
                        T.reduce_sum(x, part, dim=1)
                        for i in T.Parallel(rows):
                            total[i] = total[i] * factor[i] + part[i]
                    if word == "fma":
                        T.reduce_sum(x, part, dim=1)
                        for i in T.Parallel(rows):
                            total[i] = T.fma(total[i], factor[i], part[i])
                    if word == "shown":
                        T.reduce_sum(x, shown, dim=1)
                        for i in T.Parallel(rows):
                            total[i] = total[i] * factor[i] + shown[i]
                        for i in T.Parallel(rows):
                            Y[number, i] = shown[i]
                    if word == "flip":
                        T.reduce_sum(x, part, dim=1)
                        for i, j in T.Parallel(rows, columns):
                            x[i, j] = -x[i, j]
                        for i in T.Parallel(rows):
                            total[i] = total[i] * factor[i] + part[i]
                    if word == "scale":
                        for i in T.Parallel(rows):
                            total[i] *= factor[i]
                    if word == "negate":
                        for i in T.Parallel(rows):
                            total[i] = -1 * total[i]
                    if word == "clear":
                        T.clear(total)
                    if word == "use":
                        for i in T.Parallel(rows):
                            Y[number, i] = total[i]
                    if word == "peek":
                        T.reduce_sum(x, part, dim=1)
                        for i in T.Parallel(rows):
                            total[i] = total[i] * factor[i] + part[i]
                            Y[number, i] = total[i]

            @T.macro
            def loop(words, number):
                before, jump, after = _divided(words)
                for k in T.serial(TURNS):
                    T.copy(X[k, 0, 0], x)
                    T.copy(S[k, 0], factor)
                    steps(before, k, number)
                    if jump == "leave":
                        if k == 2:
                            break
                    if jump == "next":
                        if k % 2 == 1:
                            continue
                    steps(after, k, number)

            T.fill(total, form.start)
            for number, (place, words) in enumerate(form.parts):
                T.copy(X[0, 0, 0], x)
                T.copy(S[0, 0], factor)
                if place == "once":
                    steps(words, 0, number)
                elif place == "loop":
                    loop(words, number)
                elif place == "branch":
                    if bx == 0:
                        steps(words, 0, number)
                else:
                    for _ in T.serial(2):
                        loop(words, number)
            for i in T.Parallel(rows):
                Y[len(form.parts), i] = total[i]

    return main


def _divided(words):
    """The words before the first jump, it, and those after."""
    at = next((i for i, word in enumerate(words) if word in JUMPS), len(words))
    return words[:at], "".join(words[at : at + 1]), words[at + 1 :]
