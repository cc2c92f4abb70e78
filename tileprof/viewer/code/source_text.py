"""The source texts that a profile holds, by line."""

from __future__ import annotations

from tileprof.profile import Profile


class SourceTexts:
    """The files of a profile, each split into lines when it is first asked for."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._files: dict[str, dict[int, str]] = {}

    def lines(self, file: str) -> dict[int, str]:
        """Return the lines of a file by number: all of it, or those of the kernels in it."""
        if file not in self._files:
            self._files[file] = self._read(file)
        return self._files[file]

    def _read(self, file: str) -> dict[int, str]:
        tables = self._profile.tables
        if file in tables.sources:
            return dict(enumerate(tables.sources[file].splitlines(), 1))
        lines: dict[int, str] = {}
        for kernel in tables.kernels:
            if kernel.source_file == file:
                lines.update(enumerate(kernel.source.splitlines(), max(kernel.source_line, 1)))
        return lines
