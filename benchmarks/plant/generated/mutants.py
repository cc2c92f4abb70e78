"""A family, an operator, and a site of it: two sources, and what is right to say of the second.

In: a family and the name of an operator with a site's number.  Out: a `Mutant`. Operators are
deterministic, so a mutant is what its name says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace

from .causes import rules_for
from .decoys import DECOYS
from .eighth.operators import EIGHTH
from .families import Family
from .fifth.operators import FIFTH
from .fresh.operators import FRESH
from .later.operators import LATER
from .operators import NUMBERS, Operator, Site
from .programs import Program, applied, moved_line
from .seventh.operators import SEVENTH
from .sixth.operators import SIXTH
from .tile_rewrites import TILE
from .triton_operators import TRITON
from .triton_orders import ORDERS

__all__ = ["OPERATORS", "Mutant", "mutants_of"]

OPERATORS: Mapping[str, Operator] = {
    each.name: each
    for each in (
        *NUMBERS,
        *TILE,
        *TRITON,
        *DECOYS,
        *ORDERS,
        *LATER,
        *FRESH,
        *FIFTH,
        *SIXTH,
        *SEVENTH,
        *EIGHTH,
    )
}
_SMS = 132
"""Multiprocessors of an H100 and of an H200."""
MOST_BLOCKS = 65535
"""Blocks along the second and third axis of a grid (CUDA C++ Programming Guide 13.0)."""


@dataclass(frozen=True)
class Mutant:
    """A kernel with one change."""

    family: Family
    operator: Operator
    number: int
    """Which of the operator's sites, from 0."""
    site: Site

    @property
    def name(self) -> str:
        """Name such as `triton-softmax/load-twice/0`."""
        return f"{self.family.name}/{self.operator.name}/{self.number}"

    @cached_property
    def text(self) -> str:
        """The source after the change."""
        return applied(self.family.text, self.site.edits)

    @cached_property
    def guilty(self) -> tuple[int, ...]:
        """Lines of the new source where the defect is."""
        old, edits = self.family.text, self.site.edits
        lines = {moved_line(old, edits, line) for line in self.site.at}
        for edit in edits:
            if edit.text.strip():
                added = sum(len(e.text) - (e.end - e.start) for e in edits if e.start < edit.start)
                start = edit.start + added
                start += len(edit.text) - len(edit.text.lstrip("\n"))
                first = self.text.count("\n", 0, start) + 1
                lines |= set(range(first, first + edit.text.strip("\n").count("\n") + 1))
        return tuple(sorted(lines))

    @property
    def rules(self) -> tuple[str, ...]:
        """Names that are right for the defect; in decoys, those that nobody may suggest."""
        return rules_for(self.site.causes)

    @cached_property
    def fault(self) -> str:
        """Why nothing draws it, or nothing: what its site says, or a grid that no GPU launches."""
        for count in self.site.counts:
            blocks = counted(self.family.program, count, self.shape)
            if blocks is not None and blocks > MOST_BLOCKS:
                return f"{blocks} blocks along an axis that has {MOST_BLOCKS} at most"
        return self.site.fault

    @cached_property
    def shape(self) -> Mapping[str, int]:
        """Extents of both twins: the family's, or such that the clean grid fills its waves."""
        if self.site.blocks is None:
            return self.family.shape
        extent, other, tile, by = self.site.blocks
        size = self.family.shape[extent] * self.family.shape[other] / tile / by

        def apart(counts: tuple[int, int]) -> tuple[bool, float]:
            """Return whether the changed grid's last wave is full, and how far the size is off."""
            down, across = counts
            last = -(-down * tile // (tile - 16)) * across % _SMS
            return not 0 < last <= _SMS // 2, abs(down * across / size - 1)

        down, across = min(
            ((12 * n, 11 * m) for n in range(1, 9) for m in range(1, 9)), key=apart
        )  # fmt: skip
        return {**self.family.shape, other: across * by, extent: down * tile}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of both sources and of everything that decides how they are run and scored."""
        facts = (
            self.name, self.operator.kind, self.family.text, self.text,
            sorted(self.shape.items()), sorted(self.rules), self.guilty, self.family.facts,
        )  # fmt: skip
        return hashlib.sha256(repr(facts).encode()).hexdigest()


def counted(program: Program, count: str, shape: Mapping[str, int]) -> int | None:
    """Return what a number of blocks is at a shape, or nothing where it needs other names.

    Args:
        program: whose entry binds names to whole numbers, as sizes of tiles.
        count: an expression such as `triton.cdiv(M, rows)`.
        shape: extents by name.
    """
    up = SimpleNamespace(cdiv=_up, ceildiv=_up)
    known = {each.name: each.value for group in program.bindings() for each in group}
    names = {"__builtins__": {}, "triton": up, "T": up, **known, **shape}
    try:
        return int(eval(count, names))
    except (NameError, AttributeError):
        return None


def _up(count: int, by: int) -> int:
    return -(-count // by)


def mutants_of(family: Family, kind: str | None = None) -> Iterator[Mutant]:
    """Yield every mutant of a family, of one kind or of both; none of the same text twice."""
    seen = {_plain(family.text)}
    for operator in OPERATORS.values():
        if family.language not in operator.languages or kind not in (None, operator.kind):
            continue
        for number, site in enumerate(operator.sites(family.program)):
            made = Mutant(family, operator, number, site)
            if _plain(made.text) not in seen:
                seen.add(_plain(made.text))
                yield made


def _plain(text: str) -> str:
    return " ".join(text.split())
