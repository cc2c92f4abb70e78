"""Mutated saved kernels: each is refused with a sentence, or loaded and called without harm.

    python -m benchmarks.reliability.saved_kernels --runs 20000 --jobs 16 -o out.json

A mutant that is loaded is called in the interpreter, and one of 20 on the `cpu`, which compiles
C++.  Memory around the arrays of a call is compared afterwards.  `long` counts calls that took more
than 3 s: a loop may run as often as its kernel says.  Seed n gives the same mutant each time:
`--seed n --runs 1 --jobs 1`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import signal
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

import tileprof
from tileprof import ir
from tileprof.errors import BuildError, TileprofError

from .ir_text import LINES, POOL, TOKEN
from .mutants import Mutate, Read, change_json, flipped, main_of, rearranged, spliced

__all__ = ["kept", "main", "members_of", "packed", "prepare"]

CORPUS = Path(__file__).parents[2] / "tests" / "data" / "fuzz" / "kernels"
ON_CPU = 20
"""One loaded mutant of so many is called on the `cpu`."""
CALL_S = 3
GUARD = 4096
"""Elements before and behind each array that a call must not touch."""


class _LongError(Exception):
    pass


def kept() -> list[bytes]:
    """Return the saved kernels that mutants are made from."""
    return [path.read_bytes() for path in sorted(CORPUS.glob("*.tpk"))]


def prepare() -> tuple[Mutate, Read]:
    """How a mutant is made, and how it is read."""
    seeds = kept()
    opened = [members_of(seed) for seed in seeds]
    words = [sorted(set(TOKEN.findall(each["kernel.ir"].decode()))) for each in opened]

    def mutate(draw: random.Random) -> Any:
        at = draw.randrange(len(seeds))
        kind = draw.randrange(10)
        if kind == 0:
            return flipped(seeds[at], draw)
        members = dict(opened[at])
        pool = POOL if draw.randrange(2) else words[at]
        if kind < 5:
            text = _changed_text(members["kernel.ir"].decode(), pool, draw)
            members["kernel.ir"] = text.encode("utf-8", "replace")
        elif kind < 8:
            held = json.loads(members["kernel.json"])
            if draw.randrange(4):
                for _ in range(draw.choice((1, 1, 2, 4))):
                    change_json(held, draw)
            else:
                _change_program(held, pool, draw)
            members["kernel.json"] = json.dumps(held).encode()
        else:
            name = draw.choice(list(members))
            members[name] = flipped(members[name], draw)
            if not draw.randrange(4):
                members.pop(draw.choice(list(members)))
        return packed(members, fitting=bool(draw.randrange(8)))

    def read(content: Any, draw: random.Random) -> str:
        with tempfile.NamedTemporaryFile(suffix=".tpk") as file:
            file.write(content)
            file.flush()
            kernel = tileprof.load_kernel(file.name)
        device = "interpreter" if draw.randrange(ON_CPU) else "cpu"
        return _called(kernel, device, draw)

    return mutate, read


def members_of(content: bytes) -> dict[str, bytes]:
    """Return the members of an archive by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members: dict[str, bytes], *, fitting: bool) -> bytes:
    """Return an archive; `fitting` puts in digests that fit, which everybody can compute."""
    if fitting and "kernel.json" in members:
        try:
            held = json.loads(members["kernel.json"])
            others = {n: c for n, c in members.items() if n != "kernel.json"}
            held["sha256"] = {n: hashlib.sha256(c).hexdigest() for n, c in others.items()}
            members = {**members, "kernel.json": json.dumps(held).encode()}
        except (ValueError, TypeError):
            pass
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return sink.getvalue()


def _changed_text(text: str, pool: list[str], draw: random.Random) -> str:
    if not draw.randrange(4):
        return rearranged(text, LINES, draw)
    return "".join(spliced(TOKEN.findall(text), pool, draw))


def _change_program(held: dict[str, Any], pool: list[str], draw: random.Random) -> None:
    """Change a program of the host: one that launches, or one that derives an extent."""
    owner, key = draw.choice(
        [(each, "host") for each in held["variants"]]
        + [(held["derived"], name) for name in held["derived"]]
    )
    owner[key] = _changed_text(owner[key], pool, draw)


def _called(kernel: Any, device: str, draw: random.Random) -> str:
    """Call it with arrays that lie between guards."""
    given: list[Any] = []
    guards = []
    inputs = {p.name: p for p in kernel.traced.params if p.role == "in"}
    symbols: dict[str, int] = {}
    for name in kernel.arguments:
        type_ = inputs[name].type
        if not isinstance(type_, ir.BufferType):
            given.append(1)
            continue
        shape = [d if isinstance(d, int) else symbols.setdefault(d, draw.choice((0, 1, 7, 64)))
                 for d in type_.shape]  # fmt: skip
        if np.prod(shape, dtype=float) > 1 << 22:
            return "too large to be called"
        count = int(np.prod(shape))
        memory = np.zeros(count + 2 * GUARD, type_.dtype.to_numpy())
        guards.append((memory, count))
        given.append(memory[GUARD : GUARD + count].reshape(shape))

    def end(signum: int, frame: Any) -> None:
        raise _LongError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, CALL_S)
    try:
        if device == "cpu":
            _on_cpu(kernel, given)
        else:
            with tileprof.device(device):
                kernel(*given)
        outcome = f"called on {device}"
    except BuildError:
        return "the C++ compiler refused it"
    except _LongError:
        outcome = "long"
    except TileprofError:
        outcome = f"stopped on {device}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    for memory, count in guards:
        assert not memory[:GUARD].view(np.uint8).any(), "memory before an array was written"
        assert not memory[GUARD + count :].view(np.uint8).any(), (
            "memory behind an array was written"
        )
    return outcome


def _on_cpu(kernel: Any, given: list[Any]) -> None:
    """In a child: native code that runs for long is ended from outside."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            with tileprof.device("cpu"):
                kernel(*given)
            code = 0
        except TileprofError:
            code = 4
        finally:
            os._exit(code)
    try:
        _, status = os.waitpid(child, 0)
    except _LongError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    if os.WIFSIGNALED(status):
        raise AssertionError(f"signal {os.WTERMSIG(status)} in the call on cpu")
    assert os.WEXITSTATUS(status) in (0, 4), "a traceback in the call on cpu"


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Run the campaign of a command line."""
    return main_of("saved_kernels", prepare, argv)


if __name__ == "__main__":
    main()
