"""Sides made of plants: folders that hold a compiler and a kernel, one of them edited.

In: a plant, the packages of compilers.  Out: two folders, or a word for an option. Files that are
not edited are links, except those beside an edited one: a module that looks for files beside itself
then finds the edited ones.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .plants import Edit, Null, Plant

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Planted:
    """Two sides and a suite, as the command line takes them, for a current folder."""

    folder: Path
    old: str
    new: str
    suite: str


def plant(which: Plant | Null, packages: Mapping[str, Path], folder: Path) -> Planted:
    """Make the sides of a plant below a folder; ValueError where a file has not the text that is
    replaced."""
    file, _, name = which.suite.partition(":")
    source = REPOSITORY / file
    folder.mkdir(parents=True)
    shutil.copy(source, folder / source.name)
    suite = f"{source.name}:{name}"
    package = packages[which.engine]
    for side in ("old", "new"):
        edits = which.compiler if side == "new" else ()
        place = folder / side
        place.mkdir()
        farm(package, place / package.name, edits)
        # Triton finds its backends by what its installation says of itself.
        for each in package.parent.glob(f"{package.name}-*.dist-info"):
            (place / each.name).symlink_to(each)
        text = source.read_text()
        for edit in which.kernel if side == "new" else ():
            text = replaced(text, edit)
        (place / source.name).write_text(text)
    if which.options:
        # Both sides have the compiler of the old folder in front of their path.
        return Planted(folder, "default", which.options, suite)
    return Planted(folder, str(folder / "old"), str(folder / "new"), suite)


def farm(source: Path, target: Path, edits: Sequence[Edit]) -> None:
    """Make a copy of a package with these edits, of links where nothing is edited."""
    edited = {Path(edit.file) for edit in edits}
    _fill(source, target, Path(), edited)
    for edit in edits:
        path = target / edit.file
        path.write_text(replaced(path.read_text(), edit))


def _fill(source: Path, target: Path, below: Path, edited: set[Path]) -> None:
    target.mkdir()
    copied = any(each.parent == below for each in edited)
    for each in source.iterdir():
        place = below / each.name
        if each.name == "__pycache__":
            continue
        if each.is_dir() and any(place in e.parents for e in edited):
            _fill(each, target / each.name, place, edited)
        elif each.is_file() and copied:
            shutil.copy(each, target / each.name)
        else:
            (target / each.name).symlink_to(each)


def replaced(text: str, edit: Edit) -> str:
    """Return the text after an edit; ValueError where it has not the old text."""
    if edit.old not in text:
        raise ValueError(f"{edit.file} has no text {edit.old!r:.60}")
    return text.replace(edit.old, edit.new)
