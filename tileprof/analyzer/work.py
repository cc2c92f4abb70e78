"""What a kernel's program says of its work: the bytes of its tensors, the type of its products.

In: the text of a kernel's IR.  Out: numbers and names; 0 and nothing where it does not say.
"""

from __future__ import annotations

import math
import re

__all__ = ["matrix_dtype", "tensor_bytes"]

_PARAMETERS = re.compile(r"^kernel @\w+\((.*)\)[^()]*\{$", re.MULTILINE)
_BUFFER = re.compile(r"global<([^<>]*), (\w+)(?:, strides = \[[^\]]*\])?>")
_PRODUCT = re.compile(r"\bgemm (%\w+)")


def tensor_bytes(ir: str) -> float:
    """Bytes of a kernel's tensors, each once; 0 where an extent is known at launch only."""
    header = _PARAMETERS.search(ir)
    whole = 0.0
    for shape, dtype in _BUFFER.findall(header[1] if header else ""):
        extents = shape.split(", ")
        if not all(each.isdigit() for each in extents):
            return 0.0
        bits = re.search(r"\d+", dtype)
        whole += math.prod(map(int, extents)) * (int(bits[0]) / 8 if bits else 1)
    return whole


def matrix_dtype(ir: str) -> str:
    """The element type of the operands of its matrix products."""
    operand = _PRODUCT.search(ir)
    if not operand:
        return ""
    made = re.search(rf"{re.escape(operand[1])} = alloc .*?, (\w+)> *$", ir, re.MULTILINE)
    return made[1] if made else ""
