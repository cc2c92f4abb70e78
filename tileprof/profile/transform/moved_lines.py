"""Places of an old program in a new one: files in other folders, lines that have moved.

In: two profiles with the texts of their files.  Out: for the places of each, keys that are equal
where they are the same place. An edit above a line, or a checkout in another folder, would
otherwise make two nodes of what is one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from tileprof.errors import Location
from tileprof.profile.tree.model import Profile
from tileprof.profile.tree.symbol import Symbol

_MOST_LINES = 20_000
"""Lines of a file above which its lines are not compared: that takes the square of their number."""
_MOST_CHANGED = 50
"""Lines of a changed block above which its lines are not compared by their letters."""
_ALIKE = 0.6
"""Share of equal letters from which a changed line is the same line."""

_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class MovedLines:
    """Files and lines of an old program as those of a new one."""

    files: Mapping[str, str]
    """Path in the new program of each file of the old one that has another path there."""
    lines: Mapping[str, Mapping[int, int]]
    """New line of each old one, by old path, of files whose text has changed."""

    def key_of_old(self, symbol: Symbol) -> _Key:
        """Return the key of a node of the old program: that of its place in the new one.

        A line that is no more has a key that no new line has.
        """
        place = symbol.location
        if place is None:
            return (symbol.key(), True)
        moved = self.lines.get(place.file)
        line = place.line if moved is None else moved.get(place.line)
        file = self.files.get(place.file, place.file)
        shown = place.line if line is None else line
        there = Location(file, shown, function=place.function)
        return (Symbol(symbol.kind, symbol.name, there, symbol.phase).key(), line is not None)


def key_of_new(symbol: Symbol) -> _Key:
    """Return the key of a node of the new program."""
    return (symbol.key(), True)


def moved_lines(old: Profile, new: Profile) -> MovedLines:
    """Find the files of `old` in `new`, and their lines where the texts differ."""
    files = _paired(_files(old.symbols), _files(new.symbols))
    lines = {}
    for path, text in old.tables.sources.items():
        other = new.tables.sources.get(files.get(path, path))
        if other is not None and other != text:
            before, after = text.splitlines(), other.splitlines()
            if max(len(before), len(after)) <= _MOST_LINES:
                lines[path] = _line_map(before, after)
    return MovedLines(files, lines)


def _files(symbols: Iterable[Symbol]) -> set[str]:
    return {each.location.file for each in symbols if each.location is not None}


def _paired(old: set[str], new: set[str]) -> dict[str, str]:
    """Return, for files of `old` that `new` lacks, the one that shares the longest end of its path.

    Files that share less than their names with it, or as much with several, have none.
    """
    missing, added = sorted(old - new), sorted(new - old)
    by_name: dict[str, list[str]] = {}
    for path in added:
        by_name.setdefault(PurePath(path).name, []).append(path)
    found: dict[str, str] = {}
    for path in missing:
        ranked = sorted(
            ((_shared(path, each), each) for each in by_name.get(PurePath(path).name, ())),
            reverse=True,
        )
        if ranked and (len(ranked) == 1 or ranked[0][0] > ranked[1][0]):
            found[path] = ranked[0][1]
    # Two old files that would both be one new file are told apart: neither is it.
    taken = list(found.values())
    return {path: other for path, other in found.items() if taken.count(other) == 1}


def _shared(one: str, other: str) -> int:
    """Return how many parts of two paths are the same, from their ends."""
    count = 0
    for left, right in zip(reversed(PurePath(one).parts), reversed(PurePath(other).parts)):
        if left != right:
            break
        count += 1
    return count


def _line_map(before: list[str], after: list[str]) -> dict[int, int]:
    """Return the new number of each old line that is still there, both from 1."""
    found: dict[int, int] = {}
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, first, end, there, last in matcher.get_opcodes():
        if tag == "equal" or (tag == "replace" and end - first == last - there):
            pairs = [(i, there - first + i) for i in range(first, end)]
        elif tag == "replace" and max(end - first, last - there) <= _MOST_CHANGED:
            pairs = _alike(before, after, range(first, end), range(there, last))
        else:
            pairs = []
        found |= {old + 1: new + 1 for old, new in pairs}
    return found


def _alike(before: list[str], after: list[str], old: range, new: range) -> list[tuple[int, int]]:
    """Pair lines of a changed block in order, each with the first that is much the same."""
    pairs, begin = [], new.start
    for each in old:
        for other in range(begin, new.stop):
            if difflib.SequenceMatcher(None, before[each], after[other]).ratio() >= _ALIKE:
                pairs.append((each, other))
                begin = other + 1
                break
    return pairs
