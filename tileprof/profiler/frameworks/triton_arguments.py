"""Arguments of Triton's launches: types and sizes of tensors, which of them are one, numbers.

In: launches with their arguments, right before they are made.  Out: `LaunchVariant`s, by kernel and
line that launches it. Finding that line takes a microsecond, so it is found for a kernel's first
launches, and then for one in 17: a number that layers and steps seldom share a factor with. The
first eight launches found at a line are looked at, which takes some ten microseconds each; then
each whose number is twice that of the one before, so that a loop's cost does not grow.

A tensor is known again by its memory, as long as the object that an earlier launch was given lives:
the memory of a dead one may have become another tensor's.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, TypeAlias

from tileprof.errors import Location
from tileprof.profile import LaunchVariant, NumberArgument, Origin, TensorArgument

_ALL = 64
"""Launches of a kernel whose lines are all found."""
_EACH = 17
"""Later launches per one whose line is found."""
_FIRST = 8
"""Launches from a line that are all looked at: those of a warm-up and of the first steps."""
_MOST_SITES = 512
"""Most pairs of kernel and line that are kept; launches from other lines are not looked at."""
_MOST_VARIANTS = 8
"""Most variants kept per line: enough for layers of a model, which differ in few sizes."""
_MOST_STORED = 256
"""Most memories whose last launch is kept; when there are more, all are forgotten."""
_LARGEST = 2.0**62
"""Largest magnitude of a number that is kept: larger ones are sentinels, which no rule uses."""
_OF_LAUNCHES = ("triton", __name__.partition(".")[0])
"""Packages whose code is between a user's launch and what listens to it."""

_Tensors: TypeAlias = tuple[TensorArgument, ...]
_Numbers: TypeAlias = dict[str, tuple[float, float]]


class KernelArguments:
    """A kernel's name and those of its parameters; the same object for all that is compiled of it.

    Compared by identity, which is fast.
    """

    def __init__(self, name: str, parameters: Sequence[str]) -> None:
        self.name, self.parameters = name, tuple(parameters)
        self.count = 0
        """Launches until now."""
        self.due = 0
        """Number of the next launch whose line is found."""


@dataclass(eq=False, slots=True)
class _Site:
    """Launches of one kernel from one place."""

    kernel: KernelArguments
    code: CodeType
    """The launching function's code, kept so that no other code gets its identity."""
    line: int
    count: int = 0
    """Launches that were found to come from this line."""
    due: int = 1
    """Number of the next launch that is looked at."""
    others: int = 0
    variants: dict[_Tensors, tuple[int, _Numbers]] = field(default_factory=dict)
    """Launches looked at, and the range of each number, by the tensors."""


class TritonArguments:
    """Arguments of the launches of one recording."""

    def __init__(self) -> None:
        self._sites: dict[tuple[KernelArguments, int, int], _Site] = {}
        self._inside: dict[int, CodeType] = {}
        """Code between a user's launch and here, by its identity."""
        self._stored: dict[int, tuple[weakref.ref[Any], Origin]] = {}
        """The launch that stored to a memory last, with the tensor that it was given."""

    def forget(self) -> None:
        """Forget which launch stored to which memory."""
        self._stored.clear()

    def see(
        self, kernel: KernelArguments, given: Sequence[Any], stored: frozenset[int], before: int
    ) -> None:
        """Look at a launch if it is due.

        `given`: arguments, after `before` others that are none of the kernel's; `stored`: positions
        of tensors that it stores to, as far as its program tells.
        """
        kernel.count += 1
        if kernel.count < kernel.due:
            return
        kernel.due = kernel.count + (1 if kernel.count < _ALL else _EACH)
        frame, inside = sys._getframe(1), self._inside
        while id(frame.f_code) in inside or self._is_inside(frame):
            if frame.f_back is None:
                return
            frame = frame.f_back
        key = kernel, id(frame.f_code), frame.f_lasti
        site = self._sites.get(key)
        if site is None:
            if len(self._sites) >= _MOST_SITES:
                return
            site = self._sites[key] = _Site(kernel, frame.f_code, frame.f_lineno)
        site.count += 1
        if site.count >= site.due:
            site.due = site.count + 1 if site.count < _FIRST else 2 * site.count
            self._look(site, given, stored, before)

    def variants(self) -> tuple[LaunchVariant, ...]:
        """Return all variants that were seen."""
        found = list[LaunchVariant]()
        for site in list(self._sites.values()):
            name, place = site.kernel.name, Location(site.code.co_filename, site.line)
            for tensors, (looked_at, numbers) in list(site.variants.items()):
                given = _ordered(site.kernel, tensors, numbers)
                found.append(LaunchVariant(name, place, looked_at, site.others, given))
        return tuple(found)

    def _is_inside(self, frame: FrameType) -> bool:
        name = str(frame.f_globals.get("__name__")).partition(".")[0]
        if name not in _OF_LAUNCHES:
            return False
        self._inside[id(frame.f_code)] = frame.f_code
        return True

    def _look(
        self, site: _Site, given: Sequence[Any], stored: frozenset[int], before: int
    ) -> None:  # fmt: skip
        if len(given) - before != len(site.kernel.parameters):
            return  # older versions of Triton leave constants out, so that names would not fit
        tensors, memories = list[TensorArgument](), dict[int, int]()
        numbers, origins = _Numbers(), list[tuple[int, weakref.ref[Any], Origin]]()
        for at, name in enumerate(site.kernel.parameters, before):
            value = given[at]
            if isinstance(value, (int, float)):
                if math.isfinite(value) and abs(value) < _LARGEST:
                    numbers[name] = float(value), float(value)
                continue
            if not callable(getattr(value, "data_ptr", None)):
                value = getattr(value, "base", None)  # of a description, or of another type's
            if not callable(getattr(value, "numel", None)):
                continue
            memory = _memory(value)
            number = memories.setdefault(memory, len(memories))
            dtype = str(value.dtype).rpartition(".")[2]
            width, origin = value.element_size(), self._origin(memory)
            tensors.append(TensorArgument(name, dtype, value.numel(), width, number, origin))
            if at in stored:
                said = Origin(site.kernel.name, site.line, name)
                origins.append((memory, weakref.ref(value), said))
        if len(self._stored) >= _MOST_STORED:
            self._stored.clear()
        self._stored |= {memory: (tensor, origin) for memory, tensor, origin in origins}
        self._fold(site, tuple(tensors), numbers)

    def _origin(self, memory: int) -> Origin | None:
        tensor, origin = self._stored.get(memory, (None, None))
        return origin if tensor is not None and tensor() is not None else None

    def _fold(self, site: _Site, tensors: _Tensors, numbers: _Numbers) -> None:
        held = site.variants.get(tensors)
        if held is None:
            if len(site.variants) < _MOST_VARIANTS:
                site.variants[tensors] = 1, numbers
            else:
                site.others += 1
            return
        count, known = held
        for name, (low, high) in numbers.items():
            least, most = known.get(name, (low, high))
            known[name] = min(least, low), max(most, high)
        site.variants[tensors] = count + 1, known


def _memory(tensor: Any) -> int:
    """Return the address of a tensor's storage, so that parts of one tensor have the same."""
    storage: Callable[[], Any] | None = getattr(tensor, "untyped_storage", None)
    address: int = (storage() if storage is not None else tensor).data_ptr()
    return address


def _ordered(
    kernel: KernelArguments, tensors: _Tensors, numbers: _Numbers
) -> tuple[TensorArgument | NumberArgument, ...]:
    """Return both in the order of the kernel's parameters."""
    held: dict[str, TensorArgument | NumberArgument] = {each.parameter: each for each in tensors}
    held |= {name: NumberArgument(name, *bounds) for name, bounds in numbers.items()}
    return tuple(held[name] for name in kernel.parameters if name in held)
