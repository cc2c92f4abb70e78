"""Writer of the trees in docs/profiling.md and docs/case-studies/trees, from recordings.

    python -m benchmarks.page_trees FOLDER

In: recordings `NAME.tprof` or `NAME-base-plain.tprof`, as `python -m benchmarks.programs.run`
keeps them; they are too large to be committed.  Out: the same pages, in which each block of text
that begins with `$ tileprof view NAME.tprof …` has what this command prints now, and the table
after `<!-- facts NAME -->` what the recording says of itself. Folders of the machine that recorded
are left out. A page of whose recordings one is missing is left as it is.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

from benchmarks.trees import hottest_module, lines_until, share_in
from tileprof import cli
from tileprof.profile import Profile, load, save

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "docs" / "profiling.md",
    *sorted((ROOT / "docs" / "case-studies" / "trees").glob("*.md")),
]
WIDTH = 120
"""Columns of the terminal that the trees are printed for."""
BLOCK = re.compile(r"^```text\n\$ (tileprof view (\w+)\.tprof.*)\n(?:.*\n)*?```$", re.MULTILINE)
FACTS = re.compile(r"^<!-- facts (\w+) -->\n(?:.*\n)*?<!-- end -->$", re.MULTILINE)
FOLDERS = re.compile(r"(?<![\w.])/(?:[^\s/,]+/)+(?=[^\s/,]+)")
"""The folders before a file's name, in the command that was recorded."""


def recording(folder: Path, name: str) -> Path | None:
    """Return the recording of a program, or None where the folder has none."""
    paths = (folder / f"{name}.tprof", folder / f"{name}-base-plain.tprof")
    return next((path for path in paths if path.exists()), None)


def without_folders(profile: Profile) -> Profile:
    """Return the profile with a command that names files without their folders."""
    held = dict(profile.tables.provenance)
    held["command"] = FOLDERS.sub("", held.get("command", "")).replace("-base-plain", "")
    return replace(profile, tables=replace(profile.tables, provenance=held))


def printed(command: str, folder: Path) -> str:
    """Return what a command line of `tileprof` prints in a folder, at `WIDTH`."""
    shown = io.StringIO()
    with (
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, COLUMNS=str(WIDTH)),
        contextlib.redirect_stdout(shown),
    ):
        code = cli.main(shlex.split(command)[1:])
    if code:
        raise RuntimeError(f"`{command}` ended with code {code}")
    return "\n".join(line.rstrip() for line in shown.getvalue().splitlines())


def facts(profile: Profile) -> Iterator[str]:
    """Yield the lines of the table about a recording."""
    held = profile.tables.provenance
    device = held.get("cuda:0", held.get("device", "unknown")).partition(",")[0]
    titles = {"torch": "PyTorch", "python": "Python"}
    versions = [f"{title} {held[key]}" for key, title in titles.items() if key in held]
    recorded = ", ".join([device, *versions, held.get("start", "")[:10]])
    module = hottest_module(profile)
    begin = f"of the hottest module, `{module}`" if module else "of the program"
    shown, whole = (lines_until(profile, frames, module) for frames in ("user", "all"))
    yield "| | |"
    yield "| --- | --- |"
    yield f"| recorded on | {recorded} |"
    yield f"| lines of the default tree until the first kernel {begin} | {shown} |"
    yield f"| the same with `--frames all` | {whole} |"
    in_module, below_line = (100 * share_in(profile, group) for group in ("module", "line"))
    yield f"| device time in a module | {in_module:.1f} % |"
    yield f"| device time below a line of the user's files | {below_line:.1f} % |"


def written(page: str, folder: Path) -> str:
    """Return a page with its blocks and tables made anew.

    FileNotFoundError where a recording is missing.
    """
    names = {found[2] for found in BLOCK.finditer(page)}
    names |= {found[1] for found in FACTS.finditer(page)}
    with tempfile.TemporaryDirectory() as kept:
        profiles = dict[str, Profile]()
        for name in names:
            path = recording(folder, name)
            if path is None:
                raise FileNotFoundError(f"no recording of {name} in {folder}")
            profiles[name] = without_folders(load(path))
            save(profiles[name], Path(kept) / f"{name}.tprof")
        page = BLOCK.sub(
            lambda found: f"```text\n$ {found[1]}\n{printed(found[1], Path(kept))}\n```", page
        )
        return FACTS.sub(
            lambda found: "\n".join(
                [f"<!-- facts {found[1]} -->", *facts(profiles[found[1]]), "<!-- end -->"]
            ),
            page,
        )


def main() -> None:
    """Write the pages whose recordings are in a folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.resolve()
    for page in PAGES:
        try:
            page.write_text(written(page.read_text(), folder))
        except FileNotFoundError as error:
            print(f"{page.name}: {error}")


if __name__ == "__main__":
    main()
