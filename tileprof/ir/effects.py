"""Declarations of what an op reads and writes.

An operand that names memory or a ring says what the op does to it (`operand` of `core.py`); what
no operand names is a `Resource`.  Passes ask `OpBase.accesses` and `OpSpec.effect`, so all of them
know a new op; `verify` refuses one that declares nothing.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal


class Effect(enum.Flag):
    """Effects of an op besides computing its results."""

    PURE = 0
    READ = enum.auto()
    WRITE = enum.auto()
    CONTROL = enum.auto()
    """Holds regions or leaves one."""


Queue = Literal["wgmma", "cp.async", "bulk"]
"""Queues that complete in order: matrix groups of a warp group, cp.async groups and bulk stores of
a thread."""
Resource = Literal["threads", "queue", "turns", "tiles", "host", "sites", "advice"]
"""Resources without an operand that an op reads or writes: threads that wait for each other, groups
of asynchronous work, turns of warp groups, the counter of a launch's tiles, the host that hears of
messages, sites that are measured, advice to the backend."""


@dataclass(frozen=True, slots=True)
class DeclaredAccess:
    """Use of the memory that an operand names."""

    field: str
    reads: bool
    writes: bool
    indices: str
    """The field with the indices of the one element that is meant; '' where it is all of them."""
    unless: str
    """The attribute that, where it holds, makes this a write that reads nothing before; or ''."""
