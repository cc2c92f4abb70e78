"""Programs that run one after the other, in processes that start with what they import.

Most of a small program's time goes into imports, of PyTorch above all: a server makes them once,
and forks for each program. Tests of how a program starts have a process of their own.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_SERVER = """
import json, os, sys, traceback
if sys.argv[1:]:
    import torch, torch.utils.checkpoint, torch.utils.data
import tileprof.cli, tileprof.lang, tileprof.profiler, tileprof.profiler.session.recording

for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for number, path in zip((1, 2), asked["written"]):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            os.chdir(asked["folder"])
            os.environ.update(asked["environment"])
            sys.stdin = open(os.devnull)
            if asked["code"]:
                exec(compile(asked["code"], "<string>", "exec"), {"__name__": "__main__"})
                code = 0
            else:
                sys.argv = ["tileprof", *asked["words"]]
                code = tileprof.cli.main(asked["words"])
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@dataclass(frozen=True)
class Ended:
    """A program's exit code, and what it wrote to standard output and to standard error."""

    code: int
    output: str
    errors: str


@cache
def _server(*packages: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    held = subprocess.Popen(
        [sys.executable, "-c", _SERVER, *packages], env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    atexit.register(_end, held)
    return held


def _end(held: subprocess.Popen[str]) -> None:
    with held:
        assert held.stdin is not None
        held.stdin.close()
        held.wait(timeout=10)


def tileprof(folder: Path, words: Sequence[str]) -> Ended:
    """Run a command of `tileprof` in a folder, on a program of PyTorch; fails where it fails."""
    pytest.importorskip("torch")
    ended = _run(_server("torch"), folder, words=words)
    assert ended.code == 0, ended.errors
    return ended


def small_tileprof(folder: Path, words: Sequence[str]) -> Ended:
    """Run a command of `tileprof` in a folder, on a program without PyTorch, with this process's
    environment."""
    return _run(_server(), folder, words=words, environment=dict(os.environ))


def python(folder: Path, code: str, **environment: str) -> Ended:
    """Run code in a folder, as a program that has imported PyTorch, with more environment
    variables."""
    pytest.importorskip("torch")
    return _run(_server("torch"), folder, code=code, environment=environment)


def _run(held: subprocess.Popen[str], folder: Path, **asked: object) -> Ended:
    assert held.stdin is not None
    assert held.stdout is not None
    # The output of the program goes to files, because the server answers on its own output.
    with tempfile.TemporaryDirectory() as beside:
        output, errors = (Path(beside) / name for name in ("output", "errors"))
        order = {"words": (), "code": "", "environment": {}, **asked}
        order |= {"folder": str(folder), "written": (str(output), str(errors))}
        held.stdin.write(json.dumps(order) + "\n")
        held.stdin.flush()
        code = int(held.stdout.readline())
        return Ended(code, output.read_text(), errors.read_text())
