"""Random numbers in kernels, of the counter-based generator Philox with ten rounds.

A number follows from the seed, the number of a sequence and a position in it, so a kernel gives the
same numbers on every device.  They are those of cuRAND's `curandStatePhilox4_32_10_t` for the same
three; `trace.random_numbers` says which position a draw takes.
"""

from __future__ import annotations

import math
from typing import Any

from tileprof.errors import KernelError
from tileprof.ir.types import float32, float64, uint32, uint64
from tileprof.lang.context import current
from tileprof.lang.scalar_math import cos, if_then_else, log, sqrt
from tileprof.lang.spans import here
from tileprof.lang.static import is_number

__all__ = ["rng_init", "rng_rand", "rng_rand_float"]

# Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): multipliers of a round and
# what the key grows by from round to round.
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORD = 0xFFFFFFFF

_GENERATOR = "curandStatePhilox4_32_10_t"


def rng_init(seed: Any, seq: Any = None, off: Any = 0, generator: str = _GENERATOR) -> None:
    """Begin to draw numbers of the sequence `seq` of a seed, from the position `off` on.

    Without `seq`, each block has a sequence of its own; in a kernel that has asked for numbers of
    threads before, each thread has.  A kernel that uses a `T.Parallel` gives each point the number
    of its place: the loop takes as many numbers as it has points, in row-major order.
    """
    if "hilox" not in generator:
        raise KernelError(
            f"`T.rng_init` with the generator {generator!r}",
            location=here(),
            hint=f"There is one generator, Philox: leave it out, or name {_GENERATOR!r}.",
        )
    current().begin_sequence(seed, seq, off)


def rng_rand() -> Any:
    """Return the next random number: 32 bits, as uint32."""
    return _words("`T.rng_rand()`", 1)[0]


def rng_rand_float(bit: int = 32, dist: str = "uniform") -> Any:
    """Return the next random number as float32 or float64 (`bit` of 64).

    `uniform` is above 0 and at most 1; `normal` has mean 0 and variance 1.  A normal number takes
    two numbers of the sequence, and so does one of 64 bits; a normal one of 64 bits takes four.
    """
    what = f"`T.rng_rand_float({bit}, {dist!r})`"
    if bit not in (32, 64) or dist not in ("uniform", "normal"):
        raise KernelError(
            what, location=here(), hint="`bit` is 32 or 64, `dist` is 'uniform' or 'normal'."
        )
    if dist == "uniform":
        return _uniform(what, bit)
    # Box and Muller: two uniform numbers give a normal one.
    radius, angle = _uniform(what, bit), _uniform(what, bit)
    return sqrt(log(radius) * -2.0) * cos(angle * (2 * math.pi))


def _uniform(what: str, bit: int) -> Any:
    context = current()
    if bit == 32:
        (word,) = _words(what, 1)
        return context.cast(word, float32) * 2.0**-32 + 2.0**-33
    low, high = _words(what, 2)
    bits = context.cast(low, uint64) ^ (context.cast(high, uint64) << 21)
    return context.cast(bits, float64) * 2.0**-53 + 2.0**-54


def _words(what: str, count: int) -> list[Any]:
    return [_word(what) for _ in range(count)]


def _word(what: str) -> Any:
    """Return 32 random bits: one of the four words that Philox gives for a position's quarter."""
    context = current()
    position = context.draw(what)
    sequence = context.sequence(what)
    seed, number = _halves(sequence.seed), _halves(sequence.number)
    words = _philox((*_halves(position, shift=2), *number), seed)
    low = context.cast(position, uint32) & 3
    first = if_then_else((low & 1) == 0, words[0], words[1])
    second = if_then_else((low & 1) == 0, words[2], words[3])
    return if_then_else((low & 2) == 0, first, second)


def _halves(value: Any, shift: int = 0) -> tuple[Any, Any]:
    """Return the low and the high 32 bits of a value, shifted right before."""
    context = current()
    if is_number(value):
        held = (int(value) & (1 << 64) - 1) >> shift
        return context.cast(held & _WORD, uint32), context.cast(held >> 32, uint32)
    if context.dtype(value) == uint32:
        return value >> shift, context.cast(0, uint32)
    wide = context.cast(value, uint64) >> shift
    return context.cast(wide, uint32), context.cast(wide >> 32, uint32)


def _philox(counter: tuple[Any, ...], key: tuple[Any, Any]) -> tuple[Any, ...]:
    """Return four random words for a counter of four words and a key of two."""
    a, b, c, d = counter
    low, high = key
    steps = [current().cast(step, uint32) for step in _WEYL]
    for _ in range(_ROUNDS):
        (upper, lower), (upper2, lower2) = (
            _product(a, _MULTIPLIERS[0]), _product(c, _MULTIPLIERS[1])
        )  # fmt: skip
        a, b, c, d = upper2 ^ b ^ low, lower2, upper ^ d ^ high, lower
        low, high = low + steps[0], high + steps[1]
    return a, b, c, d


def _product(word: Any, factor: int) -> tuple[Any, Any]:
    """Return the high and the low 32 bits of a product."""
    context = current()
    wide = context.cast(word, uint64) * factor
    return context.cast(wide >> 32, uint32), context.cast(wide, uint32)
