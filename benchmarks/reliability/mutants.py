"""Mutants in forked workers: what reads a file from anyone is given many damaged ones.

In: seeds, a function that makes a mutant of a seed and one that reads it.  Out: counts, and the
mutants that ended in anything but a sentence or a result.  Each mutant is read in a forked process
with 1 GB of memory beyond what it began with and 10 s of time; a process that is killed is one
failure, and the next mutant goes on in a new one.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tileprof.errors import TileprofError

__all__ = [
    "LIMIT_BYTES", "LIMIT_S", "Mutate", "Read", "campaign", "change_json", "flipped", "main_of",
    "rearranged", "spliced",
]  # fmt: skip

LIMIT_BYTES = 1 << 30
LIMIT_S = 10
_SHOWN = 20
"""Failures that are kept with their seeds."""

_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 1e400),
    *("", "x" * 5000, "\x1b", [], {}, [[]], "cuda"),
)

Mutate = Callable[[random.Random], Any]
"""Gives one mutant."""
Read = Callable[[Any, random.Random], str]
"""Reads it; gives a word that is counted, raises TileprofError where it is refused."""


class _TooLongError(Exception):
    pass


def _alarm(signum: int, frame: Any) -> None:
    raise _TooLongError


def flipped(content: bytes, draw: random.Random) -> bytes:
    """Some bytes changed, removed, repeated or cut off."""
    made = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 4, 16))):
        if not made:
            break
        at = draw.randrange(len(made))
        match draw.randrange(6):
            case 0:
                made[at] ^= 1 << draw.randrange(8)
            case 1:
                made[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                size = draw.choice((2, 4, 8))
                value = draw.choice((0, 1, -1, 1 << 31, (1 << 63) - 1, draw.getrandbits(63)))
                made[at : at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
            case 3:
                del made[at : at + draw.randrange(1, 64)]
            case 4:
                made[at:at] = made[at : at + draw.randrange(1, 64)]
            case 5:
                if not draw.randrange(8):
                    del made[at:]
    return bytes(made)


def spliced(tokens: list[str], pool: list[str], draw: random.Random) -> list[str]:
    """Some tokens changed, removed, repeated or exchanged for others."""
    made = list(tokens)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        if not made:
            break
        at = draw.randrange(len(made))
        match draw.randrange(10):
            case 0:
                made[at] = draw.choice(pool)
            case 5 | 6 | 7 | 8 | 9:
                # Most texts that are still valid differ in a value, a number or a word.
                kind = _kind(made[at])
                alike = [each for each in tokens if _kind(each) == kind]
                numbers = ("0", "1", "-1", "3", "64", "1000000000")
                made[at] = draw.choice(numbers if kind == "number" else alike or pool)
            case 2:
                del made[at]
            case 3:
                other = draw.randrange(len(made))
                made[at], made[other] = made[other], made[at]
            case 4:
                made[at:at] = made[at : at + draw.randrange(1, 20)]
    return made


def rearranged(text: str, pool: list[str], draw: random.Random) -> str:
    """Return a text with some lines moved, removed, repeated or added."""
    lines = text.splitlines()
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        at, other = draw.randrange(len(lines) + 1), draw.randrange(len(lines) + 1)
        match draw.randrange(6):
            case 0:
                del lines[at : at + 1]
            case 1:
                lines[at:at] = lines[other : other + draw.choice((1, 1, 2, 8))]
            case 2:
                lines[at:at], lines[other : other + 1] = lines[other : other + 1], []
            case _:
                lines.insert(at, draw.choice(pool))
    return "\n".join(lines) + "\n"


def change_json(held: Any, draw: random.Random) -> None:
    """Change one value somewhere in a JSON, or take one away."""
    while True:
        keys: list[Any] = list(held) if isinstance(held, dict) else list(range(len(held)))
        if not keys:
            return
        key = draw.choice(keys)
        if isinstance(held[key], dict | list) and held[key] and draw.randrange(8):
            held = held[key]
            continue
        match draw.randrange(4):
            case 0:
                del held[key]
            case 1:
                held[key] = draw.choice(keys)
            case _:
                # A later change may go into a list: it must not be one that all mutants share.
                held[key] = copy.deepcopy(draw.choice(_VALUES))
        return


def _kind(token: str) -> str:
    if token.startswith("%"):
        return "value"
    if token.isdigit():
        return "number"
    return "word" if token[:1].isalpha() else "mark"


def campaign(
    name: str, mutate: Mutate, read: Read, *, runs: int, jobs: int, seconds: float, first: int = 0
) -> dict[str, Any]:
    """Read mutants number `first` to `first + runs`, or as many as fit into `seconds`."""
    start = time.monotonic()
    pipes = []
    for job in range(jobs):
        source, sink = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(source)
            try:
                numbers = range(first + job, first + runs, jobs)
                _supervise(numbers, mutate, read, sink, start + seconds)
            finally:
                os._exit(0)
        os.close(sink)
        pipes.append((child, source))
    counts: dict[str, int] = {}
    details: list[dict[str, Any]] = []
    for child, source in pipes:
        with os.fdopen(source) as lines:
            for line in lines:
                found = json.loads(line)
                counts[found["outcome"]] = counts.get(found["outcome"], 0) + 1
                if found["detail"]:
                    details.append(found)
        os.waitpid(child, 0)
    took = time.monotonic() - start
    failed = {kind: counts.get(kind, 0) for kind in ("traceback", "hang", "killed", "memory")}
    done = sum(counts.values())
    return {
        "name": name,
        "runs": done,
        "failures": sum(failed.values()),
        "hangs": failed["hang"],
        "tracebacks": failed["traceback"],
        "killed": failed["killed"],
        "over_memory": failed["memory"],
        "seconds": round(took, 1),
        "per_second_per_job": round(done / took / jobs, 1),
        "outcomes": dict(sorted(counts.items())),
        "details": details[:_SHOWN],
    }


def _supervise(numbers: range, mutate: Mutate, read: Read, sink: int, until: float) -> None:
    """Run a worker, and another one from the mutant after the one that killed it."""
    at = 0
    while at < len(numbers) and time.monotonic() < until:
        source, own = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(source)
            code = 1
            try:
                _work(numbers[at:], mutate, read, own, until)
                code = 0
            finally:
                os._exit(code)
        os.close(own)
        with os.fdopen(source) as lines:
            for line in lines:
                os.write(sink, line.encode())
                at += 1
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            detail = "hung in C" if number == signal.SIGPROF else f"signal {number}"
            _tell(sink, numbers[at], "killed", detail)
            at += 1
        elif status and at < len(numbers):
            # The mutant itself could not be made: a fault of this campaign.
            _tell(sink, numbers[at], "traceback", "the worker ended")
            return


def _work(numbers: range, mutate: Mutate, read: Read, sink: int, until: float) -> None:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + LIMIT_BYTES,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, _alarm)
    for number in numbers:
        if time.monotonic() > until:
            return
        draw = random.Random(number)
        held = mutate(draw)
        # What Python cannot interrupt is ended by the second one.
        signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
        signal.setitimer(signal.ITIMER_PROF, 3 * LIMIT_S)
        try:
            outcome, detail = read(held, draw), ""
        except TileprofError as error:
            outcome, detail = "refused", ""
            if not str(error).strip() or type(error).__name__ == "InternalError":
                outcome, detail = "traceback", f"InternalError: {error}"
        except _TooLongError:
            outcome, detail = "hang", traceback.format_exc()[-1500:]
        except MemoryError:
            outcome, detail = "memory", traceback.format_exc()[-1500:]
        except BaseException:
            outcome, detail = "traceback", traceback.format_exc()[-1500:]
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _tell(sink, number, outcome, detail)


def _tell(sink: int, number: int, outcome: str, detail: str) -> None:
    line = json.dumps({"seed": number, "outcome": outcome, "detail": detail[-1500:]}) + "\n"
    os.write(sink, line.encode())


def main_of(
    name: str, prepare: Callable[[], tuple[Mutate, Read]], argv: list[str] | None = None
) -> dict[str, Any]:
    """Run a campaign from a command line and write its result."""
    parser = argparse.ArgumentParser(f"benchmarks.reliability.{name}")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--seed", type=int, default=0, help="number of the first mutant")
    parser.add_argument("-o", dest="out", type=Path)
    args = parser.parse_args(argv)
    mutate, read = prepare()
    found = campaign(
        name, mutate, read, runs=args.runs, jobs=args.jobs, seconds=args.seconds, first=args.seed
    )
    text = json.dumps(found, indent=1)
    if args.out:
        args.out.write_text(text + "\n")
    print(text, file=sys.stderr if args.out else sys.stdout)
    return found
