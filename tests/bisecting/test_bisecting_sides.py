"""Words that name sides, and what is made of them."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tileprof.bisecting import Sides
from tileprof.bisecting.sides import read_options
from tileprof.errors import UsageError


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[Sides]:
    """Sides of a repository with one commit that holds a compiler."""
    repository = tmp_path / "repository"
    (repository / "tileprof").mkdir(parents=True)
    (repository / "tileprof" / "__init__.py").write_text("")
    (repository / "notes.txt").write_text("long")
    author = ["-c", "user.name=n", "-c", "user.email=e"]
    for words in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "First"]):
        subprocess.run(["git", "-C", str(repository), *words], check=True)
    with Sides(str(repository)) as made:
        yield made


def test_options_are_read_as_values() -> None:
    """Switches, numbers, lists and words."""
    assert read_options("tma=off,stages=2,synchronous=A+B,tile_order=static,overlap=none") == {
        "tma": False, "stages": 2, "synchronous": ["A", "B"], "tile_order": "static",
        "overlap": None,
    }  # fmt: skip
    with pytest.raises(UsageError, match="`tma` is not NAME=VALUE"):
        read_options("tma")


def test_commit_is_unpacked_without_what_no_side_needs(sides: Sides) -> None:
    """Its compiler is in front of the module path, and the one that runs here is hidden."""
    side = sides.side("HEAD")
    assert (side.kind, side.isolated, side.paths) == ("commit", True, (side.tree,))
    assert (Path(side.tree) / "tileprof" / "__init__.py").is_file()
    assert not (Path(side.tree) / "notes.txt").exists()


def test_wheel_tree_environment_and_options(sides: Sides, tmp_path: Path) -> None:
    """Each kind of side, by what its word names."""
    wheel = tmp_path / "tileprof-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tileprof/__init__.py", "")
        tool = zipfile.ZipInfo("tileprof/tool")
        tool.external_attr = 0o100755 << 16
        archive.writestr(tool, "#!/bin/sh\n")
    found = sides.side(str(wheel))
    assert found.kind == "wheel"
    assert os.access(Path(found.paths[0]) / "tileprof" / "tool", os.X_OK)
    assert (Path(found.paths[0]) / "tileprof" / "__init__.py").is_file()
    tree = tmp_path / "tree"
    (tree / "tileprof").mkdir(parents=True)
    (tree / "tileprof" / "__init__.py").write_text("")
    assert sides.side(str(tree)).kind == "tree"
    assert sides.side(sys.executable).python == sys.executable
    environment = tmp_path / "venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").symlink_to(sys.executable)
    assert sides.side(str(environment)).kind == "environment"
    assert sides.side("stages=2").controls == {"stages": 2}
    assert sides.side("default").controls == {}


@pytest.mark.parametrize(
    ("word", "message"),
    [("nothing", "`nothing` names no side"), ("missing.whl", "there is no wheel missing.whl")],
)
def test_word_that_names_nothing_says_what_a_side_is(sides: Sides, word: str, message: str) -> None:
    """The way out lists the kinds of sides."""
    with pytest.raises(UsageError, match=message):
        sides.side(word)
