"""Mutated saved kernels: each is refused with a sentence, or loaded and called without harm.

    python -m benchmarks.reliability.saved_kernels --runs 20000 --jobs 16 -o out.json

A mutant that is loaded is called in the interpreter, and one of 20 on the `cpu`, which compiles
C++.  Memory around the arrays of a call is compared afterwards.  `long` counts calls that took more
than 3 s: a loop may run as often as its kernel says.  Seed n gives the same mutant each time:
`--seed n --runs 1 --jobs 1`.
"""

from __future__ import annotations

import copy
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

from .ir_text import POOL, TOKEN
from .mutants import Mutate, Read, flipped, main_of, spliced

__all__ = ["main", "prepare"]

CORPUS = Path(__file__).parents[2] / "tests" / "data" / "fuzz" / "kernels"
ON_CPU = 20
"""One loaded mutant of so many is called on the `cpu`."""
CALL_S = 3
GUARD = 4096
"""Elements before and behind each array that a call must not touch."""
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 1e400),
    *("", "x" * 5000, "\x1b", [], {}, [[]], "cuda"),
)


class _LongError(Exception):
    pass


def prepare() -> tuple[Mutate, Read]:
    """How a mutant is made, and how it is read."""
    seeds = [path.read_bytes() for path in sorted(CORPUS.glob("*.tpk"))]
    opened = [_members(seed) for seed in seeds]
    words = [sorted(set(TOKEN.findall(each["kernel.ir"].decode()))) for each in opened]

    def mutate(draw: random.Random) -> Any:
        at = draw.randrange(len(seeds))
        kind = draw.randrange(10)
        if kind == 0:
            return flipped(seeds[at], draw)
        members = dict(opened[at])
        if kind < 5:
            pool = POOL if draw.randrange(2) else words[at]
            tokens = TOKEN.findall(members["kernel.ir"].decode())
            members["kernel.ir"] = "".join(spliced(tokens, pool, draw)).encode("utf-8", "replace")
        elif kind < 8:
            held = json.loads(members["kernel.json"])
            for _ in range(draw.choice((1, 1, 2, 4))):
                _change(held, draw)
            members["kernel.json"] = json.dumps(held).encode()
        else:
            name = draw.choice(list(members))
            members[name] = flipped(members[name], draw)
            if not draw.randrange(4):
                members.pop(draw.choice(list(members)))
        return _packed(members, fitting=bool(draw.randrange(8)))

    def read(content: Any, draw: random.Random) -> str:
        with tempfile.NamedTemporaryFile(suffix=".tpk") as file:
            file.write(content)
            file.flush()
            kernel = tileprof.load_kernel(file.name)
        device = "interpreter" if draw.randrange(ON_CPU) else "cpu"
        return _called(kernel, device, draw)

    return mutate, read


def _members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _packed(members: dict[str, bytes], *, fitting: bool) -> bytes:
    """An archive, with digests that fit: everybody can compute them."""
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


def _change(held: Any, draw: random.Random) -> None:
    """One value somewhere in a JSON, or one that is missing, or one too many."""
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
                held[key] = copy.deepcopy(draw.choice(VALUES))
        return


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
