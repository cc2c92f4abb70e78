"""Limits of what a profile file may hold; one that exceeds them is refused with a sentence.

A profile may come from anyone, and a few bytes of it can ask for gigabytes of memory.  The limits
are well above what tileprof records, and low enough that loading, showing and converting a file
of 10 MB takes less than 1 GB of memory.  `docs/profile-format.md` lists them.
"""

from __future__ import annotations

from typing import Final

FILE_BYTES: Final = 1 << 30
"""Largest file, in bytes.  Recordings keep at most 64 MB of cubins and 2 million events each."""
NODES: Final = 1_000_000
"""Most nodes of a tree.  A recording folds new names beyond 500,000 nodes of Python's."""
METRICS: Final = 1_000
"""Most metrics.  CUPTI knows some thousands, of which a run asks for a few dozen."""
CELLS: Final = 8_000_000
"""Most values: nodes times metrics.  Each takes 24 bytes in memory (own, absorbed, total)."""
DEPTH: Final = 10_000
"""Most nodes on a path.  Python's own recursion ends at 1,000 frames by default; what a recording
has below this depth is folded into the last level when it is saved."""
CALLERS: Final = 100
"""Most places that code was inlined through, one into the next."""
ROWS: Final = 1_000_000
"""Most rows of any other table.  A recording keeps at most 100,000 instructions."""
REMARKS: Final = 200_000
"""Most remarks, and most candidates that they turn down.  A kernel has some ten; checking the facts
of 100,000 takes 2 s."""
KERNELS: Final = 20_000
"""Most kernels, each with a program, source and code of its own."""
LINE_CHARACTERS: Final = 20_000
"""Longest name, in characters.  Demangled C++ templates reach some thousands."""
TEXT_CHARACTERS: Final = 16_000_000
"""Longest source, program or listing, in characters."""
TREE_CHARACTERS: Final = 64_000_000
"""Most characters of a tree whose nodes are written out one by one, each with its name and its
place.  Exports and data views do that, where the file holds a name once."""
INFLATED_BYTES: Final = 64_000_000
"""Most bytes of a compressed column, text or cubin once it is decompressed.  The longest column
that is recorded has 2 million events of 8 bytes."""
MAGNITUDE: Final = 1e100
"""Largest value of a metric, without its sign: products and squares of sums stay finite."""
NANOSECONDS: Final = 1 << 61
"""Largest time, in ns: 73 years, so that sums and differences of three fit 64 bits.  A GPU's global
timer counts from 1970, which is 1.8e18 ns ago."""
READ_SECONDS: Final = 8.0
"""Most processor time for reading the tables of a file, in s; 100,000 nodes take 0.3 s."""
EXPORT_BYTES: Final = 256_000_000
"""Largest export, in bytes.  Stacks that repeat the whole path at each node grow with the square of
a tree's depth."""
TRACKS: Final = 20_000
"""Most streams and threads of a timeline."""
CTAS: Final = 20_000
"""Most CTAs, and launches of them, whose inside was recorded; a recording keeps some hundreds."""
CTA_WARPS: Final = 200_000
"""Most warps of these CTAs; a CTA has at most 32."""
EVENTS: Final = 4_000_000
"""Most events of a timeline; a recording keeps at most 2 million."""
LOOPS: Final = 1_000
"""Most loops around an instruction."""
VISITS: Final = 2_000_000
"""Most visits, and most pieces of asynchronous work, of all CTAs; a recording keeps 200,000."""
NESTING: Final = 300
"""Most nodes on a path, and most blocks around an op, in forms that readers nest as deep: JSON of
Python's ends at some 490, hatchet's reader takes three frames a node."""
IR_BYTES: Final = 8_000_000
"""Most bytes of the programs of all kernels, decompressed; a program takes some 10,000.  Recordings
leave out the programs beyond, and of files that hold text alone no more is read either."""
IR_OPS: Final = 200_000
"""Most ops of the programs of all kernels; a program has some hundreds."""
ATTRIBUTE_NESTING: Final = 16
"""Most lists within each other in an attribute of an op; the IR's own parser takes fewer."""
SITES: Final = 100_000
"""Numbers of a kernel's measured places are below this; tables are made of that many columns."""
