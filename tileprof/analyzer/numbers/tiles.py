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

# -- tiles/round_trips

RELAYS_LEAST_BITS = 32
"""Bits of the smallest asynchronous copy of a thread (PTX, `cp.async`)."""
