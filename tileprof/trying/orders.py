"""Orders that a process of the program gets before it begins, and the messages of both sides.

In: a program, changes, and how it is measured.  Out: JSON in a file, read by `inside.main`. After
that the two sides talk over a pipe:

    process   {"at": "ready", "step_ns"}      all steps before the first timed one are done
    process   {"at": "timed", "ns", "steps"}  what it was asked for is done
    process   {"at": "over", …}               the program has ended, or was ended
    other     {"steps": n, "lead": m}         do m steps, and then n that are timed
    other     {"end": true}                   end the program here
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from tileprof.analyzer.fixes import Fix, fix_from_json, fix_json

RESULTS = "results.npz"
"""Name of the file that holds what a process keeps of its results."""
LOW_PRECISION = "low_precision"
"""Array of that file which is there where the program computes with fewer bits than 32."""


Place: TypeAlias = tuple[str, int]
"""File and line of the program's code."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the program, by the file that it stands in."""

    file: str
    name: str
    """Its name with its class, if it has one: `Trainer.step`."""

    def __str__(self) -> str:
        return f"{self.file}:{self.name}"


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of the program."""

    file: str
    """Real path."""
    line: int

    def __str__(self) -> str:
        return f"{os.path.relpath(self.file)}:{self.line}"


@dataclass(frozen=True, slots=True)
class TriedProgram:
    """A program as the user runs it."""

    kind: Literal["script", "module"]
    name: str
    """Path of the script, or dotted name of the module."""
    arguments: tuple[str, ...] = ()
    step: Function | None = None
    """Function whose calls are the steps; None for those of optimizers and `tileprof.step`."""
    compared: Function | None = None
    """Function whose results are compared."""
    loop: Loop | None = None
    """Loop whose iterations are the steps, with the arrays of its function as their results."""

    def __str__(self) -> str:
        words = [self.name] if self.kind == "script" else ["-m", self.name]
        return " ".join([*words, *self.arguments])


@dataclass(frozen=True, slots=True)
class Orders:
    """Orders of one process of the program."""

    program: TriedProgram
    fixes: tuple[Fix, ...]
    folder: str
    """File for what it keeps of its results."""
    kept: int
    """Steps, from the first on, whose results are kept."""
    untimed: int
    """Steps before it is ready to be timed."""
    seed: int
    """Seed of random numbers of programs that do not set one."""
    disturbed: float = 0.0
    """Size of random numbers that are added to gradients in the kept steps, as a share of each
    parameter's; 0 for none."""
    draws_alike: bool = False
    """Whether compiled code draws the random numbers that the original does."""
    profile: str = ""
    """File that the process writes its profile to; empty where it is not recorded."""
    counts_loops: bool = False
    """Whether it counts the iterations of all loops of the program."""

    def write(self, path: Path) -> None:
        """Write them as JSON."""
        written = asdict(self)
        written["fixes"] = [fix_json(each) for each in self.fixes]
        path.write_text(json.dumps(written))


def read_orders(path: str) -> Orders:
    """Return the orders in a file."""
    held = json.loads(Path(path).read_text())
    program = held["program"]
    for name in ("step", "compared"):
        program[name] = program[name] and Function(**program[name])
    program["loop"] = program["loop"] and Loop(**program["loop"])
    program["arguments"] = tuple(program["arguments"])
    held["program"] = TriedProgram(**program)
    held["fixes"] = tuple(_known(held["fixes"]))
    return Orders(**held)


def _known(written: Sequence[dict[str, object]]) -> Sequence[Fix]:
    fixes = [fix_from_json(each) for each in written]
    return [each for each in fixes if each is not None]
