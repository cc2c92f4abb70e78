"""Lines of a tree in sight: open and folded ones, the chosen one, matches of a search.

In: the lines of a tree and what the reader does.  Out: the lines in sight, from top to bottom.
Every action takes a few passes over arrays, so that it is quick for 100,000 lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tileprof.once import cached_property
from tileprof.profile.transform.operations import regular
from tileprof.viewer.options import DEFAULT_THRESHOLD, MOST_LINES, THRESHOLDS
from tileprof.viewer.rows import TreeRows

Mask = npt.NDArray[np.bool_]


@dataclass
class Choices:
    """Choices of a reader in a tree; they hold for later trees of the same program too."""

    opened: dict[int, bool] = field(default_factory=dict)
    """True for lines that the reader opened, False for those folded, by the key of their path."""
    chosen: int | None = None
    """Key of the path of the chosen line."""
    threshold: float = DEFAULT_THRESHOLD
    """Percent of the whole below which lines are out of sight."""


class TreeState:
    """The lines of one tree in sight."""

    def __init__(self, rows: TreeRows, choices: Choices) -> None:
        self.rows, self.choices = rows, choices
        self.visible = np.zeros(0, np.int64)
        """Lines in sight, from top to bottom."""
        self.cursor = int(rows.outline.order[0]) if len(rows) else 0
        """The chosen line."""
        self.matches: Mask = np.zeros(len(rows), bool)
        """Lines that a search found."""
        self._small = self._below_threshold()
        self._closed = self._closed_at_first()
        self._take_choices()
        self._see()

    def __len__(self) -> int:
        return len(self.visible)

    # -- folding

    def is_parent(self, line: int) -> bool:
        """Return whether there are lines below a line."""
        return bool(self.rows.outline.sizes[line] > 1)

    def is_open(self, line: int) -> bool:
        """Return whether the lines below a line are in sight."""
        return not self._closed[line]

    def set_open(self, line: int, is_open: bool) -> None:
        """Show or fold the lines below a line."""
        self._set(np.array([line]), is_open)

    def set_all_open(self, line: int, is_open: bool) -> None:
        """Show or fold all levels below a line, and the line itself."""
        self._set(self._subtree(line), is_open)

    def _set(self, lines: npt.NDArray[np.int64], is_open: bool) -> None:
        lines = lines[self.rows.outline.sizes[lines] > 1]
        self._closed[lines] = not is_open
        keys = self.rows.path_keys
        self.choices.opened.update((keys[line], is_open) for line in lines.tolist())
        self._see()

    def _subtree(self, line: int) -> npt.NDArray[np.int64]:
        outline = self.rows.outline
        start = int(outline.positions[line])
        return outline.order[start : start + int(outline.sizes[line])]

    # -- moving

    @property
    def index(self) -> int:
        """Place of the chosen line among those in sight."""
        return self.index_of(self.cursor)

    def index_of(self, line: int) -> int:
        """Return the place in sight of a line, or of the one above it that is."""
        positions = self.rows.outline.positions
        at = int(np.searchsorted(positions[self.visible], positions[line], side="right")) - 1
        return max(at, 0)

    def choose(self, index: int) -> None:
        """Choose the line at a place in sight; beyond the ends the first or the last one."""
        if len(self.visible):
            self.cursor = int(self.visible[min(max(index, 0), len(self.visible) - 1)])
            self.choices.chosen = self.rows.path_keys[self.cursor]

    def choose_parent(self) -> None:
        """Choose the line above the chosen one in the tree."""
        above = int(self.rows.outline.parents[self.cursor])
        if above >= 0:
            self.choose(self.index_of(above))

    def reveal(self, line: int) -> bool:
        """Choose a line, opening what it is in; True where the threshold had to go for that."""
        closed, above = [], int(self.rows.outline.parents[line])
        while above >= 0:
            closed.append(above)
            above = int(self.rows.outline.parents[above])
        small = bool(self._small[line])
        if small:
            self.choices.threshold = 0
            self._small = self._below_threshold()
        self._set(np.array(closed, np.int64), True)
        self.choose(self.index_of(line))
        return small

    # -- the threshold

    def set_threshold(self, percent: float) -> None:
        """Put lines below a percentage of the whole out of sight."""
        self.choices.threshold = percent
        self._small = self._below_threshold()
        self._see()

    @property
    def out_of_sight(self) -> int:
        """Number of lines that the threshold leaves out."""
        return int((self._small & ~self.rows.hidden).sum())

    @cached_property
    def _reach(self) -> npt.NDArray[np.float64]:
        """Largest share, 0 to 1, that a line or one below it has; 1 where there are no shares."""
        if not self.rows.whole:
            return np.ones(len(self.rows))
        reach = self.rows.outline.highest(np.abs(self.rows.amounts))
        return np.asarray(reach / abs(self.rows.whole))

    def _below_threshold(self) -> Mask:
        return self._reach < self.choices.threshold / 100

    def _closed_at_first(self) -> Mask:
        """Return the lines that begin folded: the least that leaves a screen or two in sight."""
        outline, below = self.rows.outline, np.zeros(len(self.rows))
        inner = np.flatnonzero(outline.parents >= 0)
        np.maximum.at(below, outline.parents[inner], self._reach[inner])
        closed = np.zeros(len(self.rows), bool)
        for percent in THRESHOLDS:
            closed = (below < percent / 100) & (outline.sizes > 1)
            if len(self._in_sight(closed)) <= MOST_LINES:
                return closed
        return closed

    def _take_choices(self) -> None:
        """Do again what the reader did in an earlier tree."""
        choices = self.choices
        if not choices.opened and choices.chosen is None:
            return
        for line, key in enumerate(self.rows.path_keys):
            if key in choices.opened and self.is_parent(line):
                self._closed[line] = not choices.opened[key]
            if key == choices.chosen:
                self.cursor = line

    def _see(self) -> None:
        """Lay out what is in sight; where the chosen line no longer is, choose the one above."""
        self.visible = self._in_sight(self._closed)
        if len(self.visible):
            self.cursor = int(self.visible[self.index])

    def _in_sight(self, closed: Mask) -> npt.NDArray[np.int64]:
        outline, count = self.rows.outline, len(self.rows)
        folded = np.flatnonzero(closed)
        starts = outline.positions[folded] + 1
        ends = outline.positions[folded] + outline.sizes[folded]
        steps = np.bincount(starts, minlength=count + 1) - np.bincount(ends, minlength=count + 1)
        covered = np.cumsum(steps)[:count] > 0
        return outline.order[~(covered | (self._small | self.rows.hidden)[outline.order])]

    # -- searching

    def search(self, pattern: str) -> int:
        """Find lines by name or place, and return how many; UsageError for no regular expression.

        Patterns without a capital match both cases.
        """
        self.matches[:] = False
        if pattern:
            hits = self._symbols_with(pattern)
            lines = self.rows.line_of[hits[self.rows.profile.symbol]]
            self.matches[lines[lines >= 0]] = True
            self.matches &= ~self.rows.hidden
        return int(self.matches.sum())

    def _symbols_with(self, pattern: str) -> Mask:
        found = regular(pattern)
        # Without a capital there is no class such as \S either, and the pattern means the same.
        texts, lower = self.rows.symbol_texts
        texts = lower if pattern == pattern.lower() else texts
        if pattern == re.escape(pattern):
            return np.array([pattern in text for text in texts], bool)
        return np.array([found.search(text) is not None for text in texts], bool)

    def next_match(self, step: int, line: int) -> int | None:
        """Return the match after a line, or before it for -1; beyond an end from the other one."""
        outline = self.rows.outline
        found = np.flatnonzero(self.matches[outline.order])
        if not len(found):
            return None
        here = outline.positions[line]
        if step > 0:
            at = int(np.searchsorted(found, here, side="right"))
        else:
            at = int(np.searchsorted(found, here, side="left")) - 1
        return int(outline.order[found[at % len(found)]])

    def place_of_match(self, line: int) -> int:
        """Return how many matches there are down to a line."""
        outline = self.rows.outline
        return int(self.matches[outline.order[: int(outline.positions[line]) + 1]].sum())

    # -- what panes ask for

    def nodes_up(self, line: int) -> Iterator[int]:
        """Yield the node of a line, then those above it."""
        node = int(self.rows.nodes[line])
        while node >= 0:
            yield node
            node = int(self.rows.profile.parents[node])

    def kernels(self, line: int) -> list[str]:
        """Return names of kernels: the one that a line is or is in, else those below by value."""
        profile = self.rows.profile
        for node in self.nodes_up(line):
            if profile.kinds[node] == "kernel":
                return [profile.names[node]]
        is_kernel = np.array([each.kind == "kernel" for each in profile.symbols], bool)
        lines = self._subtree(line)
        found = lines[is_kernel[profile.symbol[self.rows.nodes[lines]]]]
        ordered = found[np.argsort(-np.nan_to_num(self.rows.amounts[found]), kind="stable")]
        return list(
            dict.fromkeys(profile.names[node] for node in self.rows.nodes[ordered].tolist())
        )

    def line_of_path(self, path: tuple[str, ...], kernel: str) -> int | None:
        """Return the line of a path of names, some of which the tree may have left out.

        The line with the largest value among those that fit; by the kernel's name alone where none
        does.
        """
        profile = self.rows.profile
        wanted = kernel or (path[-1] if path else "")
        by_symbol = np.array([each.name == wanted for each in profile.symbols], bool)
        nodes = np.flatnonzero(by_symbol[profile.symbol]) if len(by_symbol) else np.zeros(0, int)
        lines = self.rows.line_of[nodes]
        candidates = [(int(n), int(at)) for n, at in zip(nodes, lines) if at >= 0]
        if not candidates:
            return None
        amounts = np.nan_to_num(self.rows.amounts)
        candidates.sort(key=lambda each: -amounts[each[1]])
        fitting = (at for node, at in candidates if self._is_on(node, path))
        return next(fitting, candidates[0][1])

    def _is_on(self, node: int, path: tuple[str, ...]) -> bool:
        """Return whether the names above a node come in a path, in their order."""
        profile, rest = self.rows.profile, iter(path)
        return all(profile.names[each] in rest for each in profile.path(node))
