"""Search of the program's own objects for cubins of its kernels, and Triton's texts.

In: names of functions by module, for modules that were loaded before anybody asked for them, and
who knows a cubin by its checksum.  Out: the bytes, where Triton or tileprof has that cubin, or
exactly one with these functions.

In: digests of cubins.  Out: what Triton made them from. Nothing of the program's is called.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import ModuleType

_ELF = b"\x7fELF"


class HeldCubins:
    """Cubins that are found among the program's objects, looked for once for each module."""

    def __init__(self) -> None:
        self._tried: set[tuple[int, tuple[str, ...]]] = set()

    def find(
        self,
        unknown: Mapping[int, Sequence[str]],
        is_of: Callable[[bytes, int], bool] = lambda image, module: False,
    ) -> dict[int, bytes]:
        """Return the cubins of modules whose functions are given.

        `is_of` says whether a cubin is known to be a module's; there may be none of which it is.
        """
        wanted = {(module, tuple(names)) for module, names in unknown.items()} - self._tried
        if not wanted:
            return {}
        self._tried |= wanted
        images = list(dict.fromkeys(_images()))
        found = {}
        for module, names in wanted:
            named = [image for image in images if _has(image, names)]
            fits = [image for image in named if is_of(image, module)] or named
            if len(fits) == 1:
                found[module] = fits[0]
        return found


class ModuleCubins:
    """The cubins of modules by the native recorder's numbers, as far as they are known."""

    def __init__(self, native: ModuleType) -> None:
        self._native = native
        self._modules: dict[int, bytes] = {}
        self._held = HeldCubins()

    def of(self, functions: Sequence[tuple[int, str]]) -> dict[int, bytes]:
        """Return those of functions, which are given by module and name."""
        unknown: dict[int, list[str]] = {}
        for module, name in functions:
            if module not in self._modules:
                if cubin := self._native.pc_cubin(module):
                    self._modules[module] = cubin
                else:
                    unknown.setdefault(module, []).append(name)
        self._modules |= self._held.find(unknown, self._is_of)
        return {module: self._modules[module] for module, _ in functions if module in self._modules}

    def _is_of(self, image: bytes, module: int) -> bool:
        """Return whether CUPTI's own checksum of a cubin is that by which it names a module."""
        known: int = self._native.pc_foreign(module)
        return known != 0 and self._native.pc_checksum(image) == known


def _has(image: bytes, functions: Sequence[str]) -> bool:
    """Return whether there is a section of code for each of the functions."""
    return all(b"\0.text." + name.encode() + b"\0" in image for name in functions)


def held_texts(digests: Collection[str], forms: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return, by the SHA-256 of a cubin, those forms of it that Triton holds as text."""
    found: dict[str, dict[str, str]] = {}
    for each in gc.get_objects():
        image = _made(each, "cubin")
        if not isinstance(image, bytes):
            continue
        digest = hashlib.sha256(image).hexdigest()
        if digest in digests and digest not in found:
            texts = ((form, _made(each, form)) for form in forms)
            found[digest] = {form: text for form, text in texts if isinstance(text, str)}
    return found


def _made(each: object, form: str) -> object:
    """Return a form of a compiled kernel of Triton's; None where it has none, or `each` is none."""
    kind = type(each)
    if kind.__name__ != "CompiledKernel" or not kind.__module__.startswith("triton."):
        return None
    asm = getattr(each, "asm", None)
    # The mapping's own ways make what is asked for and not there, as SASS by another program.
    return dict.get(asm, form) if isinstance(asm, dict) else None


def _images() -> Iterator[bytes]:
    """Yield all cubins that objects of Triton's and of ours hold."""
    for each in gc.get_objects():
        kind = type(each)
        image = _made(each, "cubin")
        if kind.__name__ == "CudaBinary" and kind.__module__.startswith("tileprof."):
            image = getattr(each, "image", None)
        if isinstance(image, bytes) and image.startswith(_ELF):
            yield image
