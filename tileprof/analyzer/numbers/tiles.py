"""Numbers by which the program of a tile kernel is read (`analyzer/tiles`)."""

from __future__ import annotations

# -- tiles/contractions

CONTRACTIONS_SIDE = 8
"""Extent of the smallest tile of tensor cores in its smallest dimension, from which on loops that
multiply and add are a product of matrices (PTX ISA, `mma` of m16n8k8)."""

# -- tiles/padding

PADDING_MATRIX = 2
"""Dimensions of an operand."""

# -- tiles/values

VALUES_MOST_BLOCKS = 1 << 18
"""Blocks of a grid, more than which are not followed one by one: memory goes with them."""

# -- tiles/launches/launch_pairs

LAUNCH_PAIRS_RUNS = 1 << 16
"""Runs of elements along an axis that are counted; an index with more is taken as unknown."""

LAUNCH_PAIRS_OFTEN = 2.0
"""How often each element of a tensor is read at most, so that it may as well be made each time. By
hand: tiles with a rim read theirs 1.1 to 1.7 times."""

LAUNCH_PAIRS_BOXES = 32
"""Writes of one launch that are put together to see whether they leave something out; further ones
are not looked at, so that a launch of more may be said to leave something out."""

# -- tiles/round_trips

RELAYS_LEAST_BITS = 32
"""Bits of the smallest asynchronous copy of a thread (PTX, `cp.async`)."""

# -- tiles/read_again

READ_AGAIN_MOST_BYTES = 1 << 16
"""Bytes of a tile that a block could keep from one statement to another: a quarter of the registers
of a multiprocessor, or of its shared memory. A larger one may be read again on purpose."""

# -- tiles/per_point

PER_POINT_FUNCTIONS = {
    "div": 8, "sqrt": 8, "rsqrt": 6, "exp": 6, "exp2": 4, "exp10": 6, "log": 8, "log2": 6,
    "log10": 8, "log1p": 12, "sigmoid": 14, "tanh": 16, "erf": 20, "pow": 30, "sin": 20, "cos": 20,
    "tan": 30, "atan2": 30, "asin": 20, "acos": 20, "atan": 20, "sinh": 20, "cosh": 20,
    "floor": 4, "ceil": 4, "trunc": 4, "round": 4,
}  # fmt: skip
"""Functions worth computing once, and about how many instructions each is in machine code for
an H200; one of the unit for special functions keeps that busy for as long as several others. By
hand, as shares of a line."""

# -- tiles/thin_loops

SMALL_CHUNKS_EACH = 2
"""Elements of a chunk that a thread has at most where a loop over chunks has too many iterations:
with 8 of two bytes it loads 16 bytes at once. By hand."""

SMALL_CHUNKS_TURNS = 8
"""Iterations from which on fewer and larger ones are advised. By hand."""
