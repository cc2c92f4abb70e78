"""The commits between two at which the code of kernels changes.

In: a function that says what a commit makes of kernels.  Out: `Step`s from one commit to the next.
Where a commit makes the same of all kernels as another one, no change is looked for in between, so
a few dozen commits are tried out of thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

Code = Mapping[str, str]
"""A digest of each kernel's code, by name."""


@dataclass(frozen=True, slots=True)
class CommitStep:
    """Neighbours that make something else of a kernel; those between could not be tried."""

    before: str
    commit: str
    kernels: tuple[str, ...]
    between: tuple[str, ...] = ()
    """Commits that failed, so that the change may lie at one of them."""


class Walk:
    """Looks for steps in a list of commits, of which each is tried at most once."""

    def __init__(self, commits: Sequence[str], code_of: Callable[[str], Code | None]) -> None:
        self._commits, self._code_of = commits, code_of
        self._known: dict[int, Code | None] = {}

    @property
    def tried(self) -> int:
        """Commits that were tried."""
        return len(self._known)

    def steps(self, kernels: Sequence[str]) -> list[CommitStep]:
        """Return the steps at which one of these kernels changes, the oldest first."""
        return list(self._between(0, len(self._commits) - 1, frozenset(kernels)))

    def _between(self, low: int, high: int, kernels: frozenset[str]) -> Iterator[CommitStep]:
        old, new = self._code(low), self._code(high)
        if old is None or new is None:
            return
        changed = tuple(sorted(n for n in kernels if old.get(n) != new.get(n)))
        if not changed:
            return
        middle = self._middle(low, high)
        if middle is None:
            commits = self._commits
            yield CommitStep(commits[low], commits[high], changed, tuple(commits[low + 1 : high]))
            return
        yield from self._between(low, middle, frozenset(changed))
        yield from self._between(middle, high, frozenset(changed))

    def _middle(self, low: int, high: int) -> int | None:
        """Return the commit nearest to the middle that can be tried."""
        center = (low + high) // 2
        for at in sorted(range(low + 1, high), key=lambda at: abs(at - center)):
            if self._code(at) is not None:
                return at
        return None

    def _code(self, at: int) -> Code | None:
        if at not in self._known:
            self._known[at] = self._code_of(self._commits[at])
        return self._known[at]
