"""A tree whose lines can be drawn one at a time: for a whole text, or for the part on a screen.

In: fields, an outline and a function that labels a line.  Out: `TreeRows`, which draws the titles,
the sums and any line in a width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tileprof.once import cached_property
from tileprof.profile import Profile
from tileprof.profile.metrics import Index
from tileprof.viewer.grid import MINIMUM_WIDTH, Field, Grid, Label, arrange
from tileprof.viewer.outline import Branches, Outline, levels_that_fit
from tileprof.viewer.text import Glyphs

Labels: TypeAlias = Callable[[int, str], Label]
"""Takes a line and the tree lines before its name."""


@dataclass(frozen=True, eq=False)
class TreeRows:
    """The lines of a tree with their numbers, before a width is known."""

    profile: Profile
    """The profile that `nodes` are of."""
    nodes: Index
    """Node of each line, the last one where several share it."""
    outline: Outline
    amounts: npt.NDArray[np.float64]
    """Value of each line that says whether it is worth showing, by its size."""
    whole: float
    """Total of which `amounts` are shares; 0 where there are no shares."""
    hidden: npt.NDArray[np.bool_]
    """Lines that stand for what is described below a tree, and are never drawn."""
    fields: Sequence[Field]
    rows: npt.NDArray[np.int64]
    """Row of the fields that belongs to each line; their last row is of the whole."""
    labels: Labels
    glyphs: Glyphs
    deep: bool
    """True where fields make room for deep paths."""

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def depth(self) -> int:
        """Largest number of lines above a line."""
        return int(self.outline.depths.max(initial=0))

    @cached_property
    def line_of(self) -> npt.NDArray[np.int64]:
        """Line on which each node of the profile is; -1 for none."""
        found = np.full(len(self.profile), -1, np.int64)
        found[self.nodes] = np.arange(len(self.nodes))
        # A node without a line of its own stands on that of the one node below it.
        missing = found < 0
        inner = np.flatnonzero(self.profile.parents >= 0)
        below = np.full(len(self.profile), -1, np.int64)
        below[self.profile.parents[inner]] = inner
        for node in np.flatnonzero(missing & (below >= 0))[::-1].tolist():
            found[node] = found[below[node]]
        return found

    @cached_property
    def symbol_texts(self) -> tuple[list[str], list[str]]:
        """Name and place of each symbol, for searches; and the same in lower case."""
        texts = [
            f"{each.name}  {each.location.short}" if each.location is not None else each.name
            for each in self.profile.symbols
        ]
        return texts, [each.lower() for each in texts]

    @cached_property
    def path_keys(self) -> list[int]:
        """A number for each line that is the same for the same path in another profile."""
        symbols = [hash(each) for each in self.profile.symbols]
        keys = list[int]()
        for parent, symbol in zip(self.profile.parents.tolist(), self.profile.symbol.tolist()):
            keys.append(hash((keys[parent] if parent >= 0 else 0, symbols[symbol])))
        return [keys[node] for node in self.nodes.tolist()]

    def drawn(self, width: int, color: bool, depth: int | None = None) -> DrawnRows:
        """Return the same in lines of at most `width` cells (40 at least).

        `depth` is that of the deepest path, where lines of several nodes hide how deep it is.
        """
        deepest = (self.depth if depth is None else depth) if self.deep else 0
        grid = arrange(self.fields, max(width, MINIMUM_WIDTH), self.glyphs, color, deepest)
        levels = levels_that_fit(self.depth, grid.room, self.glyphs)
        return DrawnRows(self, grid, Branches(self.outline, levels, self.glyphs))


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """The lines of a tree in a width; each is made when it is asked for."""

    rows: TreeRows
    grid: Grid
    branches: Branches

    def header(self) -> str:
        """Return the line of titles."""
        return self.grid.header("")

    def whole(self) -> str:
        """Return the line of the whole."""
        last = len(self.rows.fields[0].cells) - 1
        return self.grid.row(last, Label("total", style="1"))

    def row(self, line: int, mark: str = "", style: str = "") -> str:
        """Return a line; `mark` stands before its name, `style` takes the place of the name's."""
        label = self.rows.labels(line, self.branches(line) + mark)
        if style:
            label = Label(label.name, label.lines, label.notes, style, label.shorter, label.mark)
        return self.grid.row(int(self.rows.rows[line]), label)
