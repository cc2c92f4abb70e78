"""The sides of a comparison: wheels, commits, source trees, environments, options, stored kernels.

In: a word of the command line.  Out: a `Side`: the interpreter, its module path, controls, and the
folder that the suite's files are taken from.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tileprof.errors import UsageError
from tileprof.files import unpack

SideKind: TypeAlias = Literal["wheel", "commit", "tree", "environment", "options", "stored"]

_SWITCH = {"true": True, "on": True, "false": False, "off": False, "none": None}
_WAYS = (
    "A side is a wheel (FILE.whl), a commit of a git repository, a source tree, an environment or "
    "its python, options (NAME=VALUE,…, or `default`), or a folder that Triton cached or dumped."
)
_PYTHONS = ("bin/python", "bin/python3", "Scripts/python.exe")
_NATIVE = ("*.so", "*.pyd", "*.dylib")


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two that are compared."""

    text: str
    """Word of the command line that names it."""
    kind: SideKind
    python: str
    """Interpreter that compiles and times."""
    paths: tuple[str, ...] = ()
    """Folders in front of its module path."""
    controls: Mapping[str, Any] = field(default_factory=dict)
    """Options that are set, beside those of the authors of kernels."""
    tree: str = ""
    """Folder that files of the suite are taken from, where it holds them; empty for none."""
    folder: str = ""
    """Folder with stored kernels."""
    isolated: bool = False
    """Whether the tileprof that runs this command is hidden from it."""

    def __str__(self) -> str:
        return self.text

    def with_controls(self, controls: Mapping[str, Any]) -> Side:
        """Return the side under other controls."""
        return replace(self, controls=dict(controls))


class Sides:
    """Makes sides ready; as a context, it removes what it unpacked."""

    def __init__(self, repository: str = "", controls: Sequence[str] = ()) -> None:
        self._repository = repository or "."
        self._controls = read_options(",".join(controls)) if controls else {}
        self._folder = Path(tempfile.mkdtemp(prefix="tileprof-bisect-"))
        self.suite_folder = ""
        """Folder of the suite below the repository's root; empty where it lies outside."""

    def __enter__(self) -> Sides:
        return self

    def __exit__(self, *ending: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def folder(self) -> Path:
        """Folder for what the comparison writes; gone at its end."""
        return self._folder

    def side(self, text: str) -> Side:
        """Return the side that a word names; UsageError where it names nothing."""
        path = Path(text).expanduser()
        if path.suffix == ".whl":
            return self._wheel(text, path)
        if path.is_dir():
            return self._of_folder(text, path)
        if path.is_file():
            if os.access(path, os.X_OK):
                return self._made(text, "environment", python=str(path.absolute()), isolated=True)
            raise UsageError(f"{text} is neither a wheel nor an interpreter", hint=_WAYS)
        if text == "default" or "=" in text:
            given = {} if text == "default" else read_options(text)
            return self._made(text, "options", controls={**self._controls, **given})
        commit = self.commit(text)
        if not commit:
            raise UsageError(f"`{text}` names no side", hint=self._why_none(text))
        return self.of_commit(commit, text)

    def _why_none(self, text: str) -> str:
        if not self._git("rev-parse", "--git-dir"):
            where = "the current folder" if self._repository == "." else self._repository
            return f"{_WAYS} {where} is in no git repository; name one with --repository."
        return f"{_WAYS} The repository has no commit `{text}`."

    def _made(self, text: str, kind: SideKind, **more: Any) -> Side:
        held: dict[str, Any] = {"python": sys.executable, "controls": self._controls, **more}
        return Side(text, kind, **held)

    # -- wheels, folders

    def _wheel(self, text: str, path: Path) -> Side:
        if not path.is_file():
            raise UsageError(f"there is no wheel {text}", hint="Check the path.")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        place = self._folder / f"wheel-{digest}"
        if not place.is_dir():
            try:
                with zipfile.ZipFile(path) as archive:
                    archive.extractall(place)
                    _keep_modes(archive, place)
            except (zipfile.BadZipFile, OSError) as error:
                raise UsageError(f"{text} is not a wheel: {error}", hint="Build it anew.") from None
        data = [str(each) for each in place.glob("*.data/*lib")]
        return self._made(text, "wheel", paths=(str(place), *data), isolated=True)

    def _of_folder(self, text: str, path: Path) -> Side:
        from .forms import has_stored

        for each in _PYTHONS:
            if (path / each).exists():
                return self._made(
                    text, "environment", python=str((path / each).absolute()), isolated=True
                )
        if (path / "tileprof" / "__init__.py").is_file() or (path / "triton").is_dir():
            held = str(path.resolve())
            return self._made(text, "tree", paths=(held,), tree=held, isolated=True)
        if has_stored(path):
            return self._made(text, "stored", folder=str(path.resolve()))
        if any(path.rglob("*.py")):
            return self._made(text, "tree", paths=(), tree=str(path.resolve()))
        raise UsageError(f"{text} is a folder that names no side", hint=_WAYS)

    # -- commits

    @property
    def root(self) -> str:
        """Folder of the repository's work tree; empty without one."""
        return self._git("rev-parse", "--show-toplevel")

    def commit(self, text: str) -> str:
        """Return the full name of a commit; empty where there is none."""
        return self._git("rev-parse", "--verify", "--quiet", f"{text}^{{commit}}")

    def of_commit(self, commit: str, text: str = "") -> Side:
        """Return the side of a commit: its files, without what is built from them."""
        place = self._folder / f"commit-{commit[:16]}"
        if not place.is_dir():
            made = self._run("archive", "--format=tar", commit, *self._needed(commit))
            with tarfile.open(fileobj=BytesIO(made)) as archive:
                unpack(archive, place)
            self._take_native(place)
        held = str(place)
        own = (place / "tileprof" / "__init__.py").is_file() or (place / "triton").is_dir()
        paths = (held,) if own else ()
        return self._made(text or commit[:10], "commit", paths=paths, tree=held, isolated=own)

    def _needed(self, commit: str) -> tuple[str, ...]:
        """Return the folders of a commit that are unpacked: the compiler's and that of the suite,
        or nothing for all, where the compiler is not in the repository."""
        held = self._git("ls-tree", "--name-only", commit).split()
        own = [name for name in ("tileprof", "triton") if name in held]
        if not own or self.suite_folder == ".":
            return ()
        place = self.suite_folder
        known = place and self._git("ls-tree", "--name-only", commit, f"{place}/")
        return (*own, *((place,) if known and place not in own else ()))

    def forget(self, commit: str) -> None:
        """Remove the files of a commit that is not needed any more."""
        shutil.rmtree(self._folder / f"commit-{commit[:16]}", ignore_errors=True)

    def _take_native(self, place: Path) -> None:
        """Copy libraries that were built in the work tree from the same sources."""
        native = Path(self.root) / "tileprof" / "native"
        target = place / "tileprof" / "native"
        if not native.is_dir() or not target.is_dir():
            return
        for pattern in _NATIVE:
            for each in native.glob(pattern):
                if not (target / each.name).exists() and self._same_sources(native, target):
                    shutil.copy2(each, target / each.name)

    @staticmethod
    def _same_sources(old: Path, new: Path) -> bool:
        texts = [
            {p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.suffix in (".cpp", ".h")}
            for f in (old, new)
        ]
        return texts[0] == texts[1]

    def between(self, old: str, new: str) -> list[str]:
        """Return the commits after `old` up to `new`, the oldest first, along first parents."""
        text = self._git("rev-list", "--first-parent", "--reverse", f"{old}..{new}")
        return text.split()

    def is_before(self, old: str, new: str) -> bool:
        """Return whether a commit is an ancestor of another one."""
        return self._git("merge-base", old, new) == old

    def subject(self, commit: str) -> str:
        """Return a commit's short name, date and subject."""
        return self._git("log", "-1", "--format=%h %as %s", commit)

    def files_of(self, commit: str) -> tuple[str, ...]:
        """Return the files that a commit changes against its first parent."""
        text = self._git("diff-tree", "--no-commit-id", "--name-only", "-r", "-m",
                         "--first-parent", commit)  # fmt: skip
        return tuple(text.splitlines())

    def _git(self, *words: str) -> str:
        """Return what git prints; empty where it fails."""
        try:
            return self._run(*words).decode(errors="replace").strip()
        except UsageError:
            return ""

    def _run(self, *words: str) -> bytes:
        try:
            done = subprocess.run(
                ["git", "-C", self._repository, *words], capture_output=True, check=False
            )
        except FileNotFoundError:
            raise UsageError("git is not installed", hint="Compare wheels or trees.") from None
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise UsageError(f"git {words[0]} failed: {said}", hint="Check the repository.")
        return done.stdout


def _keep_modes(archive: zipfile.ZipFile, place: Path) -> None:
    """Make files executable that are so in a wheel, such as Triton's assembler."""
    for each in archive.infolist():
        if each.external_attr >> 16 & 0o111 and not each.is_dir():
            (place / each.filename).chmod(0o755)


def read_options(text: str) -> dict[str, Any]:
    """Return the values of `NAME=VALUE,NAME=VALUE`; UsageError for anything else."""
    found: dict[str, Any] = {}
    for each in text.split(","):
        name, sign, value = each.partition("=")
        if not sign or not name.isidentifier() or not value:
            raise UsageError(
                f"`{each}` is not NAME=VALUE", hint="Options are written tma=off,stages=2."
            )
        found[name] = _value(value)
    return found


def _value(text: str) -> Any:
    if text in _SWITCH:
        return _SWITCH[text]
    if text.isascii() and text.isdigit():
        return int(text)
    return text.split("+") if "+" in text else text
