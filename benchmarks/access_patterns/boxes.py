"""Patterns of the copy engine: boxes of tensors and plain bytes."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.access_patterns.patterns import LANES, Box, Pattern

WAYS = ("tma load", "tma store", "tma add")
START = 16
"""Bytes of which a row of a box begins at a multiple: for others the GPU stops the context with
CUDA_ERROR_ILLEGAL_INSTRUCTION."""


def boxes() -> Iterator[Pattern]:
    """Yield loads, stores and additions of boxes; then plain bytes."""
    for way in WAYS:
        for name, box in _boxes(way):
            yield Pattern(f"{way}: {name}", "boxes", f"{way} {len(box.box)}", box=box)
    for way in ("bulk load", "bulk store"):
        for start in (0, 16, 32, 112):
            for count in (16, 32, 48, 128, 144, 1024):
                lanes = (start,) * LANES, (0,) * LANES, (count,) * LANES
                yield Pattern(f"{way}: {count} bytes from {start}", "boxes", way, *lanes)


def _boxes(way: str) -> Iterator[tuple[str, Box]]:
    """Yield boxes of float32 and, but for additions, of two bytes and one."""
    for element in (4,) if way == "tma add" else (2, 1, 4):
        for pitch in (512, 528, 544):
            wide = pitch // element
            for width in (16, 32, 48, 64, 128):
                columns = width // element
                cut = wide - max(columns // 2, START // element)
                for x in (0, 16 // element, 48 // element, cut - cut % (START // element)):
                    made = Box(element, (wide, 64), (pitch,), (columns, 8), (x, 3))
                    if element == 2 or (pitch == 528 and width in (48, 128)):
                        yield _text(made), made
        for swizzle in (32, 64, 128):
            for x in (0, 16 // element):
                columns = swizzle // element
                made = Box(element, (528 // element, 64), (528,), (columns, 16), (x, 2), swizzle)
                yield _text(made), made
    element = 4
    for start in ((-4, -2), (120, 60), (4, 62)):
        made = Box(element, (128, 64), (512,), (16, 8), start)
        yield _text(made), made
    for corner in ((0, 0, 0), (4, 1, 1), (100, 14, 2)):
        made = Box(element, (108, 16, 4), (432, 432 * 16), (16, 4, 2), corner)
        yield _text(made), made


def _text(box: Box) -> str:
    """Return what tells one box from others."""
    swizzle = f", swizzle {box.swizzle}" if box.swizzle else ""
    return (
        f"{box.element} bytes, tensor {_by(box.shape)}, pitch {_by(box.pitches)}, "
        f"box {_by(box.box)} from {_by(box.start)}{swizzle}"
    )


def _by(extents: tuple[int, ...]) -> str:
    return " x ".join(map(str, extents))
