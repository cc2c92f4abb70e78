"""Options of records on a GPU, checked before anything starts.

In: what a user says, as a mapping or as the text of the command line.  Out: `RecordOptions`; which
warps of a block record, how many slots an arena has, what a slot keeps that is full.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, get_args

from tileprof.errors import UsageError

Keep = Literal["first", "last", "both"]
Roles = Literal["all", "roles", "cta"]

LEAST_RECORDS: Final = 64
MOST_RECORDS: Final = 1 << 20
LEAST_SLOTS: Final = 64
MOST_MEMORY: Final = 2 << 30
"""An arena ends below 4 GiB, and is a power of two without its heads."""
_WARPS_OF_A_GROUP = 4
_MOST_WARPS = 32
_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_MEMORY = re.compile(r"(\d+) ?(B|KB|MB|GB|)")
_HINT = (
    "It has: blocks=N or all; warps=all, roles, cta or numbers (0-3+8); records=N of a warp;"
    " keep=first, last or both; memory=256MB."
)


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """Amount of a launch that is recorded.

    A warp that makes more records than its slot holds loses some.  Those that it keeps tell the
    share of a site in the part of the launch that was seen, so a slot holds 32,768: of its ops a
    warp of a persistent product of 8192³ makes 6,600, and 32,000 with int4 weights, of which 2,048
    were the first five tiles of sixteen and the first two of 31.  Should a slot be full all the
    same, neither end of a warp's work is the better part: what keeps the first never sees the last
    epilogue, what keeps the last no prologue.  So launches take turns, and no site is missing from
    a profile only for where it stands.
    """

    blocks: int | Literal["all"] | None = None
    """Number of blocks of a launch that record; None: 8, and 2 of each launch in a graph."""
    warps: Roles | tuple[int, ...] = "all"
    """Warps of such a block that record: all (of producers the one that loads), by `roles` one of
    each warp group, by `cta` the first and the one that loads; or those of these numbers."""
    records: int = 32_768
    """Number of records of a warp for which there is room; a power of two."""
    keep: Keep = "both"
    """Records that stay if there are more; `both`: launches alternate between the first and the
    last."""
    memory: int | None = None
    """Bytes of the device for all of them; None: at most 512 MB, and 1/256 of the device's."""

    def __str__(self) -> str:
        """Return what differs from the default, in the command line's form."""
        said = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                shown = "+".join(map(str, value)) if isinstance(value, tuple) else value
                said.append(f"{field.name}={shown}")
        return ",".join(said)

    def goes_round(self, launch: int, *, shown: bool) -> bool:
        """Return whether the newest records of a launch stay, by its number. What is `shown` as a
        timeline has its begin, where launches take turns."""
        return self.keep == "last" or (self.keep == "both" and launch % 2 == 0 and not shown)

    def warps_of(self, consumers: int, warps: int) -> tuple[int, ...]:
        """Return the numbers of the warps that record, of blocks with so many warps, of which those
        from `consumers` on only load."""
        there = (*range(consumers), *([consumers] if warps > consumers else []))
        match self.warps:
            case "all":
                return there
            case "roles":
                return tuple(w for w in there if w % _WARPS_OF_A_GROUP == 0 or w >= consumers)
            case "cta":
                return tuple(w for w in there if w == 0 or w >= consumers)
            case numbers:
                return tuple(w for w in there if w in numbers)


def parse_record_options(given: object) -> RecordOptions:
    """Parse a mapping of names to values, a text `blocks=16,keep=last`, or None for none of them.

    UsageError for what is unknown or has no meaning.
    """
    if given is None:
        return RecordOptions()
    if isinstance(given, RecordOptions):
        return given
    if isinstance(given, str):
        given = dict(_pair(part) for part in given.split(","))
    if not isinstance(given, Mapping):
        raise UsageError(f"inside is {given!r}", hint=_HINT)
    for name in given:
        if name not in _PARSERS:
            raise UsageError(f"inside has no option {name!r}", hint=_HINT)
    made = RecordOptions(**{name: _PARSERS[name](value) for name, value in given.items()})
    if made.memory is not None and made.memory < LEAST_SLOTS * 8 * made.records:
        raise UsageError(
            f"inside: memory of {made.memory:,} bytes is too little for {made.records:,} records of"
            f" {LEAST_SLOTS} warps",
            hint=f"Give at least {LEAST_SLOTS * 8 * made.records:,} bytes, or ask for fewer"
            " records.",
        )
    return made


def _pair(part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals:
        raise UsageError(f"inside: {part!r} is not of the form NAME=VALUE", hint=_HINT)
    return name.strip(), value.strip()


def _number(name: str, value: object, least: int, most: int) -> int:
    text = str(value)
    if isinstance(value, int | str) and not isinstance(value, bool) and text.isdecimal():
        number = int(text)
        if least <= number <= most:
            return number
    raise _wrong(name, value, f"Give a whole number from {least:,} to {most:,}.")


def _wrong(name: str, value: object, hint: str) -> UsageError:
    return UsageError(f"inside: {name} is {value!r}", hint=hint)


def _blocks(value: object) -> int | Literal["all"]:
    return "all" if value == "all" else _number("blocks", value, 1, 1 << 31)


def _warps(value: Any) -> Roles | tuple[int, ...]:
    for name in get_args(Roles):
        if value == name:
            return name  # type: ignore[no-any-return]
    if isinstance(value, str):
        value = [number for part in value.split("+") for number in _range(part, value)]
    if isinstance(value, int):
        value = [value]
    if not isinstance(value, Sequence) or not value:
        raise _wrong("warps", value, "Give all, roles, cta, or numbers: [0, 4], 0-3+8.")
    return tuple(sorted({_number("warps", each, 0, _MOST_WARPS - 1) for each in value}))


def _range(part: str, whole: str) -> range:
    first, _, last = part.strip().partition("-")
    if not (first.isdecimal() and (last or first).isdecimal()):
        raise _wrong("warps", whole, "Give all, roles, cta, or numbers: [0, 4], 0-3+8.")
    return range(int(first), int(last or first) + 1)


def _records(value: object) -> int:
    """Rounded up to a power of two, 64 at least."""
    asked = max(_number("records", value, 1, MOST_RECORDS), LEAST_RECORDS)
    return 1 << (asked - 1).bit_length()


def _keep(value: object) -> Keep:
    for name in get_args(Keep):
        if value == name:
            return name  # type: ignore[no-any-return]
    raise _wrong("keep", value, "Give first, last or both.")


def _memory(value: object) -> int:
    found = _MEMORY.fullmatch(value.strip().upper()) if isinstance(value, str) else None
    number = int(found[1]) * _UNITS[found[2]] if found else value
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= MOST_MEMORY:
        raise _wrong("memory", value, "Give bytes, or a text as 256MB: at most 2GB.")
    return number


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "blocks": _blocks,
    "warps": _warps,
    "records": _records,
    "keep": _keep,
    "memory": _memory,
}
