r"""Collapsed stacks, one line a path with what its last node holds itself: `main;matmul 1200`.

Flame graph tools split names at `;` and stacks at line ends, so those are escaped (`\x3b`, `\n`).
Weights are whole numbers: nanoseconds of the default metric; a positive one is never rounded to 0.
"""

from __future__ import annotations

import re

import numpy as np

from tileprof.profile import Profile
from tileprof.viewer.columns import default_metric
from tileprof.viewer.exports.layout import called, check_paths, held, walk

_SPECIAL = re.compile(r"[\\;\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")


def to_collapsed(profile: Profile) -> str:
    """Return one line for every node that holds something itself, in the order of the tree."""
    weights = held(profile, default_metric(profile))
    names = called(profile)
    check_paths(profile, names, np.array(weights, object) != 0)
    path: list[str] = []
    lines: list[str] = []
    for node, depth in walk(profile.parents.tolist()):
        path[depth:] = [_SPECIAL.sub(_escape, names[node])]
        if weights[node]:
            lines.append(f"{';'.join(path)} {weights[node]}\n")
    return "".join(lines)


def _escape(match: re.Match[str]) -> str:
    return r"\x3b" if match[0] == ";" else match[0].encode("unicode_escape").decode()
