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
_GENERATED = re.compile(
    r"[/\\](tmp|T|Temp)[/\\]([^/\\]*\.[^/\\]*_[a-z0-9_]{8}|__autograph_generated_file\w+)\.py$"
)
"""Paths of texts that libraries write to run them: in a folder for temporary files, with the dotted
name of a module and `tempfile`'s eight characters (PyTorch Geometric), or TensorFlow's."""


def is_installed(file: str) -> bool:
    """Return whether a file is a library's or generated, and not the user's own."""
    return bool(_INSTALLED.search(file)) or is_generated(file)


def is_generated(file: str) -> bool:
    """Return whether a file is a text that a library wrote while the program ran."""
    return bool(_GENERATED.search(file))
