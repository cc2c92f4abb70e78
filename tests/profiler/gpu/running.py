"""Running a program of `programs/` under `tileprof run`, and reading what it left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileprof.profile import Node, Profile, load

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Ran:
    """A program's end."""

    code: int
    output: str
    errors: str
    path: Path

    @property
    def profile(self) -> Profile:
        """The profile that it left, checked."""
        profile = load(self.path)
        profile.check()
        return profile

    @property
    def told(self) -> dict[str, Any]:
        """The last line of its output, which is JSON."""
        told: dict[str, Any] = json.loads(self.output.strip().splitlines()[-1])
        return told


def python(folder: Path, *arguments: str, timeout: float = 300) -> Ran:
    """Run Python in a folder; a profile is expected as `out.tprof` there."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr, folder / "out.tprof")


def profiled(folder: Path, program: str, *arguments: str, timeout: float = 300) -> Ran:
    """Run a program under `tileprof run`."""
    run = ("-m", "tileprof", "run", "--quiet", "-o", "out.tprof", str(PROGRAMS / f"{program}.py"))
    return python(folder, *run, *arguments, timeout=timeout)


def succeeded(ran: Ran) -> Ran:
    """The same, of a program that did not fail."""
    assert ran.code == 0, ran.errors
    return ran


def under(profile: Profile, scope: str) -> set[int]:
    """All nodes below the scopes of a name."""
    tops = set(profile.find(scope, "scope"))
    return {n for n in range(len(profile)) if tops & set(profile.path(n))}


def nodes(profile: Profile, kind: str, scope: str = "") -> Iterator[Node]:
    """All nodes of a kind, or those in a scope."""
    inside = under(profile, scope) if scope else None
    for found in profile.find(kind=kind):
        if inside is None or found in inside:
            yield profile.node(found)


def counts(profile: Profile, kind: str = "kernel", scope: str = "") -> Counter[str]:
    """How often each name was there."""
    found: Counter[str] = Counter()
    for node in nodes(profile, kind, scope):
        found[node.name] += int(node.own("count"))
    return found


def total(profile: Profile, metric: str, kind: str = "kernel", scope: str = "") -> float:
    """A metric summed over nodes of a kind."""
    return sum(float(node.own(metric)) for node in nodes(profile, kind, scope))
