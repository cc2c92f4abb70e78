"""Processes that take turns: one at a time works, the others wait at their standard input.

In: a work and the ways to run it.  Out: the answers of each way's bursts, by generation and round.
A generation is a set of fresh processes, so that what is particular to one process (where its
memory lies, which cores it got) is not taken for the cost of a profiler.  Bursts are short and
many, for what is particular to one burst hardly shrinks with its length.
"""

from __future__ import annotations

import json
import math
import os
import random
import select
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PROGRAM = str(Path(__file__).parent / "overhead_programs.py")

Answer = dict[str, Any]


class Failed(Exception):
    """A process that ended, or does not answer."""


@dataclass(frozen=True)
class Way:
    """How the program is run: under `tileprof run` with options, or with a peer inside."""

    name: str
    options: tuple[str, ...] | None = None
    """Of `tileprof run`; None where plain Python runs the program."""
    peer: str = "none"

    def command(self, work: str, cpu: bool, output: Path) -> list[str]:
        """The command line."""
        program = [PROGRAM, work, "--peer", self.peer, *(["--cpu"] if cpu else [])]
        if self.options is None:
            return [sys.executable, *program, "--output", str(output)]
        run = [sys.executable, "-m", "tileprof", "run", "--quiet", "-o", str(output)]
        return [*run, *self.options, *program]


class Served:
    """One process and the pipe to it."""

    def __init__(self, way: Way, work: str, cpu: bool, folder: Path, number: int = 0) -> None:
        stem = f"{work}.{way.name.replace(' ', '-')}.{number}"
        self.way = way
        self.output = folder / f"{stem}.{'hatchet' if 'proton' in way.peer else 'tprof'}"
        self._log = (folder / f"{stem}.log").open("w+")
        self._text = b""
        self._process = subprocess.Popen(
            way.command(work, cpu, self.output),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip

    def tell(self, order: str) -> None:
        """Send a line."""
        pipe = self._process.stdin
        assert pipe is not None
        try:
            pipe.write(f"{order}\n".encode())
            pipe.flush()
        except OSError:
            raise Failed(self._last_words()) from None

    def answer(self, seconds: float = 120) -> Answer:
        """The next answer; `Failed` where none comes in that time."""
        pipe = self._process.stdout
        assert pipe is not None
        end = time.monotonic() + seconds
        while True:
            line, found, rest = self._text.partition(b"\n")
            if found:
                self._text = rest
                if line.startswith(b"@"):
                    told: Answer = json.loads(line[1:])
                    return told
                continue
            left = end - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise Failed(f"no answer in {seconds:.0f} s; {self._last_words()}")
            more = os.read(pipe.fileno(), 1 << 16)
            if not more:
                raise Failed(self._last_words())
            self._text += more

    def burst(self, warm: int, units: int, seconds: float = 120) -> Answer:
        """Let it work, and wait until it has."""
        self.tell(f"burst {warm} {units}")
        return self.answer(seconds)

    def end(self, seconds: float = 120) -> Answer:
        """Let the program end, and wait for its process; when the profile was written, too."""
        self.tell("end")
        return self.ended(seconds)

    def ended(self, seconds: float = 120) -> Answer:
        """The same, of a program that was told to end before."""
        told = self.answer(seconds)
        code = self._process.wait(seconds)
        told["exited_ns"] = time.time_ns()
        if code:
            raise Failed(f"exit code {code}; {self._last_words()}")
        if self.output.exists():
            # The rename into place is the last change of the file's entry, after its last byte.
            kept = self.output.stat()
            told |= {"written_ns": max(kept.st_ctime_ns, kept.st_mtime_ns), "size": kept.st_size}
            if self.way.options is not None:
                told["facts"] = facts(self.output)
        return told

    def close(self) -> None:
        """Let go of the process, whatever state it is in."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    continue

    def _last_words(self) -> str:
        self._log.flush()
        lines = Path(self._log.name).read_text(errors="replace").strip().splitlines()
        return " | ".join(lines[-3:]) or "it said nothing"


def facts(path: Path) -> dict[str, str]:
    """What a profile says of how it was recorded: without its parts a figure would mean nothing."""
    with closing(sqlite3.connect(path)) as database:
        held = dict(database.execute("SELECT key, value FROM provenance"))
    known = ("torch operations", "cupti", "gpu", "gaps", "lost", "native recorder")
    return {key: str(value) for key, value in held.items() if key in known}


@dataclass
class Taken:
    """What the bursts of one way gave: for each generation answers, each with its `round`."""

    way: Way
    generations: list[list[Answer]] = field(default_factory=list)
    endings: list[Answer] = field(default_factory=list)
    error: str = ""


@dataclass(frozen=True)
class Plan:
    """How many bursts of how many units, and in how many fresh sets of processes."""

    units: int
    warm: int
    rounds: int
    generations: int
    turns: Mapping[str, int] = field(default_factory=dict)
    """By a way's name: how often it works in a generation, where not in every round."""
    seconds: float = math.inf
    """For all bursts; rounds that find no time are left out, whole."""
    endings_apart: bool = False
    """Whether processes end one after the other, as what that takes counts."""

    def takes_part(self, names: Sequence[str], turn: int) -> list[str]:
        """Who works in a round; the turns of each are as evenly apart as they can be."""

        def works(number: int, name: str) -> bool:
            turns = self.turns.get(name, self.rounds)
            return (turn + number) * turns % self.rounds < turns

        return [name for number, name in enumerate(names) if works(number, name)]


def take_turns(
    work: str, ways: Sequence[Way], plan: Plan, cpu: bool, folder: Path
) -> dict[str, Taken]:
    """All bursts of all ways; one that fails is left out from then on, with its last words."""
    taken = {way.name: Taken(way) for way in ways}
    chance = random.Random(0)
    for number in range(plan.generations):
        alive = {
            way.name: Served(way, work, cpu, folder, number)
            for way in ways
            if not taken[way.name].error
        }
        try:
            _generation(alive, taken, plan, chance)
        finally:
            for served in alive.values():
                served.close()
    return taken


def _generation(
    alive: dict[str, Served], taken: dict[str, Taken], plan: Plan, chance: random.Random
) -> None:
    for name in list(alive):
        _attempt(alive, taken, name, lambda served: served.answer())
    for name in list(alive):  # the first burst loads what only a burst needs
        _attempt(alive, taken, name, lambda served: served.burst(plan.warm, plan.warm))
    everyone = list(alive)
    answers: dict[str, list[Answer]] = {name: [] for name in everyone}
    end = time.monotonic() + plan.seconds / plan.generations
    for turn in range(plan.rounds):
        if time.monotonic() > end:
            break
        names = [name for name in plan.takes_part(everyone, turn) if name in alive]
        chance.shuffle(names)
        for name in names:
            told = _attempt(alive, taken, name, lambda s: s.burst(plan.warm, plan.units))
            if told is not None:
                answers[name].append(told | {"round": turn})
    _end(alive, taken, answers, plan.endings_apart)


def _end(
    alive: dict[str, Served],
    taken: dict[str, Taken],
    answers: dict[str, list[Answer]],
    apart: bool,
) -> None:
    if not apart:
        for name in list(alive):
            _attempt(alive, taken, name, lambda served: served.tell("end"))
    end = Served.end if apart else Served.ended
    for name in list(alive):
        ending = _attempt(alive, taken, name, end)
        if ending is not None:
            taken[name].endings.append(ending)
            taken[name].generations.append(answers[name])


def _attempt(
    alive: dict[str, Served], taken: dict[str, Taken], name: str, act: Any
) -> Answer | None:
    try:
        told: Answer = act(alive[name])
        return told
    except (Failed, subprocess.TimeoutExpired) as failure:
        taken[name].error = str(failure)[:400]
        alive.pop(name).close()
        return None
