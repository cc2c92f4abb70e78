"""The folder of a learner: files of exercises, and the progress beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tileprof.errors import OutputError, UsageError
from tileprof.files import replace_bytes

from .exercise import Exercise
from .stored import stored

PROGRESS = ".tileprof-learn.json"
"""Name of the file with what is solved and how many hints were given."""
_FORMAT = 1


@dataclass
class Folder:
    """A folder with exercises."""

    path: Path
    solved: list[str] = field(default_factory=list)
    """Names of solved exercises, in the order in which they were solved."""
    hints: dict[str, int] = field(default_factory=dict)
    """Number of hints that were given, by exercise."""

    @classmethod
    def open(cls, path: str | Path) -> Folder:
        """Read the progress of a folder, which may be new; UsageError where it is damaged."""
        folder = Path(path)
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is no folder", hint="Name a folder for the exercises.")
        try:
            held = json.loads((folder / PROGRESS).read_text("utf-8"))
        except FileNotFoundError:
            return cls(folder)
        except (OSError, ValueError) as error:
            raise _damaged(folder, str(error)) from None
        if not isinstance(held, Mapping) or held.get("format") != _FORMAT:
            raise _damaged(folder, "its format is unknown")
        solved: Any = held.get("solved")
        hints: Any = held.get("hints")
        if not _is_progress(solved, hints):
            raise _damaged(folder, "a list of names and a table of numbers are expected")
        return cls(folder, solved, hints)

    def file(self, exercise: Exercise) -> Path:
        """Return the path of the learner's file."""
        return self.path / f"{exercise.name}.py"

    def start(self, exercise: Exercise) -> bool:
        """Write the files of an exercise that are not there; return whether the Python file was
        written.  OutputError where the folder cannot be written."""
        file = self.file(exercise)
        texts: dict[Path, bytes] = {file: exercise.file_text().encode()}
        for name, source in (exercise.data or {}).items():
            texts[self.path / name] = stored(source)
        written = not file.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for path, content in texts.items():
                if not path.exists():
                    # Exclusive: a file that appears meanwhile is the learner's.
                    with path.open("xb") as new:
                        new.write(content)
        except OSError as error:
            raise _unwritable(self.path, error) from None
        return written

    def solve(self, exercise: Exercise) -> None:
        """Note that an exercise is solved."""
        if exercise.name not in self.solved:
            self.solved.append(exercise.name)
            self._save()

    def next_hint(self, exercise: Exercise) -> int:
        """Return the number of the next hint, from 0, and note that it was given; the last hint is
        given again and again."""
        at = self.hints.get(exercise.name, 0)
        if at < len(exercise.hints):
            self.hints[exercise.name] = at + 1
            self._save()
        return min(at, len(exercise.hints) - 1)

    def _save(self) -> None:
        held = {"format": _FORMAT, "solved": self.solved, "hints": self.hints}
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            replace_bytes(self.path / PROGRESS, (json.dumps(held, indent=1) + "\n").encode())
        except OSError as error:
            raise _unwritable(self.path, error) from None


def _is_progress(solved: Any, hints: Any) -> bool:
    names = isinstance(solved, list) and all(isinstance(name, str) for name in solved)
    return names and isinstance(hints, dict) and all(type(n) is int for n in hints.values())


def _damaged(folder: Path, why: str) -> UsageError:
    return UsageError(
        f"{folder / PROGRESS} is no progress of tileprof learn: {why}",
        hint="Remove it; your solutions are not in it, and --check marks them as solved again.",
    )


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"{path} cannot be written: {error.strerror or error}",
        hint="Choose another folder with --dir.",
    )
