"""Cubins of modules that were loaded before anybody asked for them, where the program holds them.

In: names of functions by module.  Out: the bytes, where Triton or tileprof has exactly one cubin
with these functions. Kernels that were compiled several times under one name are not told apart.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["HeldCubins"]

_ELF = b"\x7fELF"


class HeldCubins:
    """Cubins that are found among the program's objects, looked for once for each module."""

    def __init__(self) -> None:
        self._tried: set[tuple[int, tuple[str, ...]]] = set()

    def find(self, unknown: Mapping[int, Sequence[str]]) -> dict[int, bytes]:
        """Return the cubins of modules whose functions are given."""
        wanted = {(module, tuple(names)) for module, names in unknown.items()} - self._tried
        if not wanted:
            return {}
        self._tried |= wanted
        images = list(dict.fromkeys(_images()))
        found = {}
        for module, names in wanted:
            fits = [image for image in images if _has(image, names)]
            if len(fits) == 1:
                found[module] = fits[0]
        return found


def _has(image: bytes, functions: Sequence[str]) -> bool:
    """Whether there is a section of code for each of the functions."""
    return all(b"\0.text." + name.encode() + b"\0" in image for name in functions)


def _images() -> Iterator[bytes]:
    """All cubins that objects of Triton's and of ours hold."""
    for each in gc.get_objects():
        kind = type(each)
        image: object = None
        if kind.__name__ == "CompiledKernel" and kind.__module__.startswith("triton."):
            asm = getattr(each, "asm", None)
            # Not by get(): the mapping makes what is asked for and not there.
            image = asm["cubin"] if isinstance(asm, dict) and "cubin" in asm else None
        elif kind.__name__ == "CudaBinary" and kind.__module__.startswith("tileprof."):
            image = getattr(each, "image", None)
        if isinstance(image, bytes) and image.startswith(_ELF):
            yield image
