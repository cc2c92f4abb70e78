"""Whose a source file is: the user's own, or an installed or generated one.

In: a path as a profile has it.  Out: a yes or no.
"""

from __future__ import annotations

import re

_INSTALLED = re.compile(
    r"[/\\](site|dist)-packages[/\\]|[/\\]lib[/\\]python3[^/\\]*[/\\]|[/\\]torchinductor_"
    r"|^<(?!ipython-input)|^\[|^/(usr/)?(lib|lib32|lib64|include)/|^/usr/local/(lib|include|cuda)"
    r"|[/\\]lib(python3|stdc\+\+|gcc_s|cu[a-z]+|nv[a-z]+|nccl|gomp)[^/\\]*\.so"
)
"""Paths of libraries, in Python and native, and names of generated texts; cells of notebooks are
the user's."""


def is_installed(file: str) -> bool:
    """Return whether a file is a library's or generated, and not the user's own."""
    return bool(_INSTALLED.search(file))
