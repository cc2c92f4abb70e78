"""How soon the default tree of a program reaches its kernels, and whose function they are in.

    python benchmarks/trees.py FILE…

In: profiles of programs on a GPU.  Out: for each a line of JSON: nodes; lines of the default tree
until the first kernel of the hottest module (of the program where it has none), with all frames and
without; the share of devices' time that is in a module or in a function of the user's files.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from tileprof.profile import Frames, Group, Profile, grouped, load, with_frames
from tileprof.viewer import ViewOptions, render_view

WIDTH = 200
"""Columns, so that names are whole."""


def lines_until(profile: Profile, frames: Frames, hottest: str) -> int:
    """Return the lines of the tree, its total left out, up to the first kernel below a name."""
    text = render_view(profile, ViewOptions(frames=frames), width=WIDTH)
    begun, count = not hottest, 0
    for line in text.splitlines():
        if "%" not in line and "total" in line:
            count = 0
            continue
        count += 1
        begun = begun or hottest in line
        if begun and line.rstrip().endswith(("kernel", "kernel set-up")):
            return count
    return count


def hottest_module(profile: Profile) -> str:
    """Return the class of the modules that most of devices' time is right in; '' for none."""
    tree = grouped(with_frames(profile, "user").profile, "module")
    times = {tree.names[top]: float(tree.total("time")[top]) for top in tree.roots()}
    named = {name: time for name, time in times.items() if not name.startswith("(")}
    return max(named, key=lambda name: named[name], default="")


def share_in(profile: Profile, group: Group) -> float:
    """Return the share of devices' time in a module, or below a line of the user's files."""
    tree = grouped(with_frames(profile, "user").profile, group)
    inside = np.array([not tree.names[top].startswith("(") for top in tree.roots()], bool)
    return float(tree.total("time")[tree.roots()][inside].sum()) / float(profile.whole["time"])


def placed(profile: Profile) -> float:
    """Return the larger one of the shares in a module and below a line of the user's files."""
    return max(share_in(profile, "module"), share_in(profile, "line"))


def main() -> None:
    """Print a line a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    for path in parser.parse_args().files:
        profile = load(path)
        if not profile.whole.get("time"):
            continue
        module = hottest_module(profile)
        row = {
            "program": path.stem, "nodes": len(profile), "module": module,
            "lines": lines_until(profile, "user", module),
            "lines_of_all": lines_until(profile, "all", module),
            "placed": round(placed(profile), 4),
        }  # fmt: skip
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
