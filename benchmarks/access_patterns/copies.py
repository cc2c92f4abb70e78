"""Patterns of cp.async: 4, 8 and 16 bytes a lane, with the L1 or past it."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.access_patterns.patterns import (
    LANES,
    OFF,
    Lanes,
    Pattern,
    dense,
    drawn,
    masks,
    permutations,
    picked,
    repeats,
    rows,
    swizzled,
)

BODIES = {"cg16": 16, "ca16": 16, "ca8": 8, "ca4": 4}
"""Bytes of a lane, by body."""
_PITCHES = (32, 48, 64, 80, 96, 128, 144, 160, 192, 208, 256, 272, 320, 400, 560, 1024)


def copies() -> Iterator[Pattern]:
    """Yield all patterns, those of 16 bytes past the L1 first: they decide the rule that lacks."""
    yield from _by_two_lanes()
    yield from _by_parts()
    for body in BODIES:
        yield from _shifted(body)
        yield from _in_rows(body)
        yield from _to_layouts(body)
        yield from _with_zeros(body)
        yield from _without_lanes(body)
        yield from _unordered(body)
    yield from _counted()


def _made(
    body: str, name: str, first: Lanes, second: Lanes | None = None, count: Lanes = (1,) * LANES
) -> Pattern:
    placed = dense(BODIES[body]) if second is None else second
    return Pattern(f"{body}: {name}", "copies", body, first, placed, count)


def _by_two_lanes() -> Iterator[Pattern]:
    """Yield copies of two lanes: whether one wavefront writes both chunks, or zeros beside one."""
    near = [(chunk * 16, place * 16) for chunk in (1, 2, 3, 4, 7) for place in (1, 2, 3, 4, 7)]
    far = [(chunk * 16, place * 16) for chunk in (8, 9, 10, 16, 32) for place in (1, 2, 4)]
    under = [(chunk * 16, 128 + place * 16) for chunk in (1, 2, 8, 9) for place in range(4)]
    for first, second in near + far + under:
        yield _two(1, first, second)
    for lane in (2, 4, 7, 8, 15, 16, 31):
        for first, second in ((16, 16), (32, 32), (16, 32), (128, 16), (128, 128 + 32), (0, 16)):
            yield _two(lane, first, second)
    for lane, second in ((1, 16), (1, 32), (1, 64), (1, 128), (2, 32), (8, 128), (16, 16)):
        yield _two(lane, 0, second, zeros=True)


def _by_parts() -> Iterator[Pattern]:
    """Yield rows of which only some lanes are copied: whether parts of a warp add up."""
    for lanes, pitch in ((2, 80), (4, 80), (4, 160), (8, 144), (8, 400)):
        for shift in (0, 16):
            for begin, end in ((0, 8), (8, 16), (0, 16), (0, LANES)):
                taken = [begin <= lane < end for lane in range(LANES)]
                first = picked(rows(16, lanes, pitch, shift), taken)
                text = f"lanes {begin} to {end} of rows of {lanes * 16}, pitch {pitch}"
                yield _made("cg16", f"{text}, shift {shift}", first)


def _two(lane: int, first: int, second: int, zeros: bool = False) -> Pattern:
    """Return a copy of lane 0 from byte 0 to byte 0, and of one other lane."""
    active = {0: (0, 0, 1), lane: (first, second, int(not zeros))}
    sources, targets, counts = zip(*(active.get(each, (OFF, 0, 1)) for each in range(LANES)))
    what = "zeros" if zeros else f"from {first}"
    return _made("cg16", f"lanes 0 and {lane}, {what} to {second}", sources, targets, counts)


def _shifted(body: str) -> Iterator[Pattern]:
    width = BODIES[body]
    for shift in range(0, 128, 16 if width == 16 else 4 * width):
        first = rows(width, LANES, 0, shift)
        yield _made(body, f"shift {shift}", first)
        if body == "cg16":
            yield _made(body, f"shift {shift} to swizzle 128", first, swizzled(width, 3))


def _in_rows(body: str) -> Iterator[Pattern]:
    width, whole = BODIES[body], body == "cg16"
    for lanes in (1, 2, 4, 8, 16) if whole else (4, 8, 16):
        for pitch in _PITCHES if whole else (80, 144, 256, 400):
            if pitch < lanes * width or pitch * (LANES // lanes) == LANES * width:
                continue
            shifts = (0, 16, 64, 112) if whole and pitch in (80, 160, 256, 400) else (0,)
            for shift in shifts:
                text = f"rows of {lanes * width}, pitch {pitch}, shift {shift}"
                yield _made(body, text, rows(width, lanes, pitch, shift))


def _to_layouts(body: str) -> Iterator[Pattern]:
    """From rows of several lines to swizzled and padded rows of shared memory."""
    width, whole = BODIES[body], body == "cg16"
    for lanes in (4, 8, 16) if whole else (8,):
        for pitch in (80, 160, 256, 400) if whole else (160,):
            if pitch < lanes * width:
                continue
            first = rows(width, lanes, pitch)
            targets = {f"swizzle {16 << bits}": swizzled(width, bits) for bits in (1, 2, 3)}
            targets |= {
                f"padding {pad}": rows(width, lanes, lanes * width + pad) for pad in (16, 32, 64)
            }
            for to, second in targets.items():
                yield _made(body, f"rows of {lanes * width}, pitch {pitch}, to {to}", first, second)


def _with_zeros(body: str) -> Iterator[Pattern]:
    width = BODIES[body]
    for name, taken in masks().items():
        count = tuple(int(part) for part in taken)
        yield _made(body, f"zeros but in {name}", dense(width), count=count)
    yield _made(body, "zeros in all lanes", dense(width), count=(0,) * LANES)
    if body != "cg16":
        return
    for name, taken in masks().items():
        if name in ("5 lanes", "12 lanes", "odd lanes", "1 of 4 lanes", "drawn lanes 1"):
            count = tuple(int(part) for part in taken)
            for pad in (16, 64):
                second = rows(width, 4, 4 * width + pad)
                yield _made(body, f"zeros but in {name}, to padding {pad}", dense(width), second,
                            count)  # fmt: skip
    for lanes, pitch in ((4, 80), (4, 160), (8, 144), (8, 400), (16, 400), (16, 560)):
        for kept in {1, 2, 3, lanes // 2, lanes - 1}:
            count = tuple(int(lane % lanes < kept) for lane in range(LANES))
            first = rows(width, lanes, pitch)
            text = f"rows of {lanes * width}, pitch {pitch}, zeros from lane {kept} of each"
            yield _made(body, text, first, count=count)
            yield _made(body, f"{text}, to swizzle 128", first, swizzled(width, 3), count)


def _without_lanes(body: str) -> Iterator[Pattern]:
    width = BODIES[body]
    for name, taken in masks().items():
        if body == "cg16" or name in ("1 lanes", "8 lanes", "17 lanes", "even lanes"):
            yield _made(body, f"guarded: {name}", picked(dense(width), taken))


def _unordered(body: str) -> Iterator[Pattern]:
    width, whole = BODIES[body], body == "cg16"
    for name, order in (permutations() | repeats()).items():
        if whole or "0" in name or "2" in name:
            yield _made(body, name, tuple(each * width for each in order))
    for reach in (1024, 4096, 65536):
        for number in range(4 if whole else 1):
            yield _made(body, f"drawn in {reach}, {number}", drawn(width, reach, number))
            if whole:
                yield _made(
                    body, f"drawn in {reach}, {number}, to swizzle 128",
                    drawn(width, reach, number), swizzled(width, 3),
                )  # fmt: skip


def _counted() -> Iterator[Pattern]:
    """Fewer bytes than a copy has, by a number in a register: the end of each lane's bytes is 0."""
    for bytes_ in (4, 8, 12):
        for name, taken in (("all lanes", (True,) * LANES), *list(masks().items())[:8:3]):
            count = tuple(bytes_ if part else 16 for part in taken)
            yield Pattern(f"cg16 by number: {bytes_} bytes in {name}", "copies", "cg16 by number",
                          dense(16), dense(16), count)  # fmt: skip
