"""Conversion of counts of program counters to tables of a profile.

In: what the recorder counted, by module, function, offset, stall reason and call path.  Out:
`PcSamples` whose nodes are the recorder's: functions by the digest of their cubin and their name,
stall reasons without `smsp__pcsamp_warps_issue_stalled_`. Nothing is lost on the way: functions
whose cubin is not known have their names, offsets stay as they are. Code comes later
(`listings`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tileprof.profile import InstructionCounts, PcFunction, PcRecording, PcRows, PcSamples
from tileprof.profiler.pcs.raw import RawCounts, RawPcSamples

_Ints = npt.NDArray[np.int64]

UNREAD = "the program has not ended, or was ended"
"""Note of functions whose code nobody has read yet."""
_BEGINNING = "_issue_stalled_"
_TABLE = 1 << 23
"""Up to how many possible keys a table of them is faster than sorting."""

Raw = RawPcSamples | RawCounts
NodeOf = Callable[[int, str], int]
"""Function from a context and a function's name to the index of a node, -1 for none."""


class Modules:
    """The digests of cubins, each made once."""

    def __init__(self) -> None:
        self._digests: dict[int, str] = {}

    def digest(self, number: int, raw: Raw) -> str:
        """Return the SHA-256 of a module's cubin, '' where that is not known."""
        if number not in self._digests and number in raw.modules:
            self._digests[number] = hashlib.sha256(raw.modules[number]).hexdigest()
        return self._digests.get(number, "")

    def cubins(self, raw: Raw) -> dict[str, bytes]:
        """Return the cubins by their digests."""
        return {self.digest(number, raw): data for number, data in raw.modules.items()}


def attribute(
    raw: RawPcSamples, modules: Modules, readable: Callable[[str], str], node_of: NodeOf
) -> PcSamples:
    """Return the samples as a profile's tables.

    `readable` demangles a name; `node_of` is asked where contexts are known.
    """
    functions, function = _functions(raw, modules, readable)
    names = [each.name for each in functions]
    rows = PcRows.added(
        function, raw.offset, raw.stall, _nodes(raw, function, names, node_of), raw.samples
    )
    return PcSamples(
        functions,
        short_names(raw.stalls),
        rows,
        (PcRecording(raw.period, raw.mode, raw.total, raw.dropped, raw.non_user, raw.overflows),),
    )


def attribute_counts(raw: RawCounts, modules: Modules, readable: Callable[[str], str]) -> PcSamples:
    """Return counts of instructions as a profile's tables; their call paths are not known."""
    functions, function = _functions(raw, modules, readable)
    counts = InstructionCounts.added(
        raw.metrics, [raw.metrics], function, raw.offset, raw.metric, raw.count
    )
    return PcSamples(functions, counts=counts)


def _functions(
    raw: Raw, modules: Modules, readable: Callable[[str], str]
) -> tuple[tuple[PcFunction, ...], _Ints]:
    """Return the functions, each once, and the place of that of each row."""
    places: dict[tuple[str, str], int] = {}
    of_raw = np.array(
        [
            places.setdefault((modules.digest(module, raw), name), len(places))
            for module, name in raw.functions
        ],
        np.int64,
    )
    function: _Ints = of_raw[raw.function] if len(raw.function) else np.zeros(0, np.int64)
    titled = (PcFunction(name, readable(name), module, note=UNREAD) for module, name in places)
    return tuple(titled), function


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """Stall reasons without what devices begin their names with; other names stay whole."""
    found = tuple(name.rpartition(_BEGINNING)[2] for name in names)
    return found if len(set(found)) == len(names) else tuple(names)


def _nodes(raw: RawPcSamples, function: _Ints, names: Sequence[str], node_of: NodeOf) -> _Ints:
    """Return the node of each row; all are -1 where no context is known."""
    if not raw.context.any():
        return np.full(len(function), -1, np.int64)
    contexts, context = np.unique(raw.context, return_inverse=True)
    keys: _Ints = context * len(names) + function
    pairs, place = _distinct(keys, len(contexts) * len(names))
    nodes = []
    for pair in pairs.tolist():
        at, which = divmod(pair, len(names))
        nodes.append(node_of(int(contexts[at]), names[which]) if contexts[at] else -1)
    found: _Ints = np.array(nodes, np.int64)[place]
    return found


def _distinct(keys: _Ints, room: int) -> tuple[_Ints, _Ints]:
    """Return the distinct ones of keys below `room`, and the place of each key among them."""
    if room > _TABLE:
        return np.unique(keys, return_inverse=True)
    seen = np.zeros(room, bool)
    seen[keys] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[keys]
