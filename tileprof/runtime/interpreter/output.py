"""Output of a kernel: each block's lines in one piece, blocks in order."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

__all__ = ["Output"]


@dataclass(slots=True)
class Output:
    """The lines of a batch, by block, until the batch is over or an error ends it.

    Every block prints: a message under `if bx == 0` appears once.
    """

    _lines: dict[int, list[str]] = field(default_factory=dict)

    def add(self, block: int, line: str) -> None:
        """A line of a block of the batch."""
        self._lines.setdefault(block, []).append(line)

    def flush(self) -> None:
        """Write everything to stdout."""
        if self._lines:
            lines = [line for block in sorted(self._lines) for line in self._lines[block]]
            self._lines.clear()
            sys.stdout.write("\n".join(lines) + "\n")
