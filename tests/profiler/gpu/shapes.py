"""What the program of known shape must give, and how a tree is boiled down to compare with it.

Here and in CI on the CPU, where operations are counted; on a GPU, kernels.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

from tileprof.profile import Node, Profile

PROGRAMS = Path(__file__).parent / "programs"
LEAVES = {"aten::neg", "aten::exp2", "aten::sqrt", "aten::floor", "aten::ceil", "aten::sin"}

EXPECTED: dict[str, int] = {
    # Two threads took the same three steps; each forward has its own backward below it.
    **{
        f"train / step {step} / model / {path}": 4
        for step in range(3)
        for path in ("forward / neg", "← / backward / exp2")
    },
    "main / descend ×200 / sqrt": 1,
    "main / recurse / floor": 1,
    "main / recurse ×2 / floor": 2,
    "main / recurse ×3 / floor": 4,
    "main / consume / generate / ceil": 1,
    "main / consume / other / generate / ceil": 2,
    "main / asynchronous / request / first / sin": 1,
    "main / asynchronous / request / second / sin": 1,
    "main / asynchronous / request / first / answer / sin": 1,
    "main / asynchronous / request / second / answer / sin": 1,
}


def outline(profile: Profile, node: int) -> str:
    """A node's path: functions of the program, scopes, `←` for backward, innermost operation."""
    words, leaf = [], ""
    for each in map(profile.node, profile.path(node)):
        word = _word(each)
        if word:
            words.append(word)
        if each.name in LEAVES:
            leaf = each.name.removeprefix("aten::")
    runs = [(word, len(list(run))) for word, run in groupby(words) if word != "<module>"]
    return " / ".join([*(w if n == 1 or w == "←" else f"{w} ×{n}" for w, n in runs), leaf])


def _word(node: Node) -> str:
    if node.kind == "scope":
        return node.name
    if node.kind == "op" and node.phase == "backward" and node.name not in LEAVES:
        return "←"
    if node.kind == "frame" and node.location and Path(node.location.file).parent == PROGRAMS:
        return node.name.rpartition(".")[2]
    return ""


def outlines(profile: Profile, kind: str) -> dict[str, int]:
    """How often each outline was there: kernels on a GPU, operations of the known ones else."""
    found: Counter[str] = Counter()
    for node in profile.find(kind=kind):
        if kind == "kernel" or profile.node(node).name in LEAVES:
            found[outline(profile, node)] += int(profile.node(node).own("count"))
    return dict(found)
