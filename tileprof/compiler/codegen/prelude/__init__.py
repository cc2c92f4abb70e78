"""The C++ that emitted kernels include: templates for tiles, functions, reductions and products.

In: nothing.  Out: the folder of the headers and their text, which is part of what a compiled kernel
is cached by.  A kernel includes only the headers it uses; they hold no kernel-specific code.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

__all__ = ["FOLDER", "text"]

FOLDER = Path(__file__).parent
"""Folder of the headers."""

_INCLUDE = re.compile(r'^#include "(\w+\.h)"', re.MULTILINE)


@cache
def text(header: str) -> str:
    """The header after all headers that it includes."""
    own = (FOLDER / header).read_text()
    return "".join(text(each) for each in _INCLUDE.findall(own)) + own
