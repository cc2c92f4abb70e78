"""How soon the default tree of a program reaches its kernels, and whose function they are in.

    python benchmarks/trees.py FILE…

In: profiles of programs, on a GPU or the host.  Out: for each a line of JSON: nodes; lines of the
default tree, and until the first kernel (on the host, operation) of the hottest module (of the
program where it has none), with all frames and without; the share of their time that is in a module
or in a function of the user's files, and the largest ones that are in neither.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tileprof.profile import (
    DEVICE_WORK,
    Frames,
    Group,
    Profile,
    Symbol,
    grouped,
    is_installed,
    load,
    with_frames,
)
from tileprof.profile.transform.frames import is_module
from tileprof.profile.tree.forest import nearest
from tileprof.viewer import ViewOptions, render_view

WIDTH = 1000
"""Columns, so that names are whole."""


def on_devices(profile: Profile) -> bool:
    """Return whether the program's work ran on devices; else it is the host's operations."""
    return bool(profile.whole.get("time"))


def rows(profile: Profile, frames: Frames = "user") -> list[str]:
    """Return the lines of the tree, its total left out."""
    text = render_view(profile, ViewOptions(frames=frames), width=WIDTH).splitlines()
    total = next(at for at, line in enumerate(text) if line.rstrip().endswith(" total"))
    return [line for line in text[total + 1 :] if re.match(r" *-?[\d.]+ ", line)]


def lines_until(profile: Profile, frames: Frames, hottest: str) -> int:
    """Return the lines up to the first kernel, or operation, at or below a name; all for none."""
    ends = ("kernel", "kernel set-up") if on_devices(profile) else ("op", "op set-up")
    begun, shown = not hottest, rows(profile, frames)
    for count, line in enumerate(shown, 1):
        begun = begun or hottest in line
        if begun and (
            line.rstrip().endswith(ends) or ("aten::" in line and not on_devices(profile))
        ):
            return count
    return len(shown)


def hottest_module(profile: Profile) -> str:
    """Return the name of the modules that most of the time of `placed` is right in; '' for none."""
    shown = with_frames(profile, "user").profile
    held, work = _time_of_work(shown)
    modules = nearest(shown.parents, _of(shown, is_module))
    times: dict[str, float] = {}
    for node in np.flatnonzero(work & (modules >= 0)).tolist():
        name = shown.names[int(modules[node])]
        times[name] = times.get(name, 0.0) + float(held[node])
    return max(times, key=lambda name: times[name], default="")


def _time_of_work(profile: Profile) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the time of each node alone, and which are kernels or operations, or in one."""
    kinds, metric = (DEVICE_WORK, "time") if on_devices(profile) else (("op",), "cpu_time")
    held = np.nan_to_num((profile.own[metric] + profile.absorbed[metric]).astype(np.float64))
    kind = _of(profile, lambda symbol: symbol.kind in kinds)
    return held, nearest(profile.parents, kind) >= 0


def share_in(profile: Profile, group: Group) -> float:
    """Return the share of devices' time in a module, or below a line of the user's files."""
    tree = grouped(with_frames(profile, "user").profile, group)
    inside = np.array([not tree.names[top].startswith("(") for top in tree.roots()], bool)
    return float(tree.total("time")[tree.roots()][inside].sum()) / float(profile.whole["time"])


def placed(profile: Profile) -> float:
    """Return the share of the time of operations that is where a reader looks for it.

    That is in a module, or, where none is around (losses, sampling, clipping, the program's own
    functions), below a line of the user's files. Without work on devices it is the host's time.
    """
    held, work = _time_of_work(profile)
    found = work & ~_lost(profile)
    whole = float(held[work].sum())
    return float(held[found].sum()) / whole if whole else math.nan


def misplaced(profile: Profile, most: int = 3) -> list[str]:
    """Return the paths of work with most of the time that `placed` does not count."""
    held, work = _time_of_work(profile)
    lost = np.flatnonzero(work & _lost(profile)).tolist()
    order = sorted(lost, key=lambda node: -float(held[node]))
    return ["/".join(profile.names[each] for each in profile.path(node)) for node in order[:most]]


def _lost(profile: Profile) -> npt.NDArray[np.bool_]:
    places = _of(profile, is_module) | _of(profile, _is_users)
    return nearest(profile.parents, places) < 0


def _of(profile: Profile, wanted: Callable[[Symbol], bool]) -> npt.NDArray[np.bool_]:
    chosen: npt.NDArray[np.bool_] = np.array([wanted(each) for each in profile.symbols], bool)
    return chosen[profile.symbol]


def _is_users(symbol: Symbol) -> bool:
    place = symbol.location
    return symbol.kind == "frame" and place is not None and not is_installed(place.file)


def main() -> None:
    """Print a line a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    for path in parser.parse_args().files:
        profile = load(path)
        module = hottest_module(profile)
        row = {
            "program": path.stem, "nodes": len(profile), "module": module,
            "rows": len(rows(profile)), "lines": lines_until(profile, "user", module),
            "lines_of_all": lines_until(profile, "all", module),
            "placed": None if math.isnan(share := placed(profile)) else round(share, 4),
            "misplaced": misplaced(profile),
        }  # fmt: skip
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
