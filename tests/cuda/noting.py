"""What a launch does to its report when it notes a failed check, as `tp_note` has it."""

from __future__ import annotations

from ctypes import c_int32

from tileprof.compiler.codegen import Place
from tileprof.errors import Location
from tileprof.runtime.cuda.report import _Head

__all__ = ["PLACE", "note"]

PLACE = Place("element", Location("k.py", 7), "", "A", (4, 136), 1, "read", point=("i",))


def note(address: int, *values: int, block: int = 0) -> None:
    """A note at place 0: of an index, then of the point; only the first is kept."""
    head = _Head.from_address(address)
    if head.failed:
        return
    head.failed, head.place, head.block = 2, 0, block
    for at, value in enumerate(values):
        head.values[at] = value
    c_int32.from_address(head.noted).value = 1
    assert head.failed == 2  # an assertion that fails now is to see that nobody has stopped yet
