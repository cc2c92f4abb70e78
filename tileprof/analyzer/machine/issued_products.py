"""How many operations of matrix products a kernel's warps issued, by samples.

In: code with samples, cycles of all schedulers.  Out: operations. A sample says whether its
scheduler issued, and instructions of products say their shape: `HGMMA.64x128x16` is a part of four
for each warp of a group, `HMMA.16816` one of 16 × 8 × 16.
"""

from __future__ import annotations

import re

from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.numbers.machine import ISSUED_PRODUCTS_SEEN
from tileprof.analyzer.numbers.shared import GROUP_THREADS
from tileprof.binary.occupancy import WARP

_GROUPS = re.compile(r"^\w*GMMA\.(\d+)x(\d+)x(\d+)")
_WARPS = re.compile(r"^[HIDQ]MMA\.(16|8)(8)(4|8|16|32|64)\b")


def issued_products(code: KernelCode, cycles: float) -> float:
    """Operations, multiplications and additions, in so many cycles of schedulers."""
    if not code.issued:
        return 0.0
    busy = 1 - code.n(idle=True) / code.whole
    done = sum(
        each * code.n([index], (ISSUED,))
        for index, each in ((e.index, operations_of(e.opcode)) for e in code.instructions) if each
    )  # fmt: skip
    return done / code.issued * busy * cycles / ISSUED_PRODUCTS_SEEN


def operations_of(opcode: str) -> float:
    """Return the operations of a product by one warp; 0 of any other instruction."""
    if found := _GROUPS.match(opcode):
        return 2.0 * int(found[1]) * int(found[2]) * int(found[3]) * WARP / GROUP_THREADS
    if found := _WARPS.match(opcode):
        return 2.0 * int(found[1]) * int(found[2]) * int(found[3])
    return 0.0


def element_of(opcode: str) -> tuple[str, int]:
    """Return the type of a product's operands by its roof, and their bytes; none if not known."""
    parts = opcode.split(".")
    if parts[0] in ("IGMMA", "IMMA"):
        return "int8", 1
    if parts[0] in ("QGMMA", "QMMA"):
        return "float8_e4m3", 1
    if "TF32" in parts:
        return "tf32", 4
    if parts[0] in ("HGMMA", "HMMA"):
        return ("bfloat16" if "BF16" in parts else "float16"), 2
    return "", 0
