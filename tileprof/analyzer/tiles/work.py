"""What a kernel's program says of its work: the bytes of its tensors, the type of its products.

In: the text of a kernel's IR.  Out: numbers and names; 0 and nothing where it does not say.
"""

from __future__ import annotations

import math
import re

__all__ = ["matrix_dtype", "tensor_bytes", "written_share"]

_PARAMETERS = re.compile(r"^kernel @\w+\((.*)\)[^()]*\{$", re.MULTILINE)
_BUFFER = re.compile(r"(\bout )?global<([^<>]*), (\w+)(?:, strides = \[[^\]]*\])?>")
_PRODUCT = re.compile(r"\bgemm (%\w+)")


def tensor_bytes(ir: str) -> float:
    """Bytes of a kernel's tensors, each once; 0 where an extent is known at launch only."""
    return sum(_tensors(ir))


def written_share(ir: str) -> float:
    """Of the bytes of a kernel's tensors, the part that it only writes."""
    read, written = _tensors(ir)
    return written / (read + written) if read + written else 0.0


def _tensors(ir: str) -> tuple[float, float]:
    """Bytes of tensors that are read, and of those that are only written."""
    header = _PARAMETERS.search(ir)
    held = {"": 0.0, "out ": 0.0}
    for out, shape, dtype in _BUFFER.findall(header[1] if header else ""):
        extents = shape.split(", ")
        if not all(each.isdigit() for each in extents):
            return 0.0, 0.0
        bits = re.search(r"\d+", dtype)
        held[out] += math.prod(map(int, extents)) * (int(bits[0]) / 8 if bits else 1)
    return held[""], held["out "]


def matrix_dtype(ir: str) -> str:
    """The element type of the operands of its matrix products."""
    operand = _PRODUCT.search(ir)
    if not operand:
        return ""
    made = re.search(rf"{re.escape(operand[1])} = alloc .*?, (\w+)> *$", ir, re.MULTILINE)
    return made[1] if made else ""
