"""Programs of PyTorch that are recorded one after the other, in processes that start with it.

Most of such a process's time goes into the import of PyTorch: a server makes it once, and forks for
each program. Tests of how a program starts have a process of their own.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_SERVER = """
import os, sys, traceback
import torch, torch.utils.checkpoint, torch.utils.data
import tileprof.cli, tileprof.profiler, tileprof.profiler.session.recording

for line in sys.stdin:
    folder, *words = line.rstrip("\\n").split("\\t")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.dup2(2, 1)  # the server's own output answers
            os.chdir(folder)
            sys.stdin = open(os.devnull)
            sys.argv = ["tileprof", *words]
            code = tileprof.cli.main(words)
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@cache
def _server() -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    held = subprocess.Popen(
        [sys.executable, "-c", _SERVER], env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    atexit.register(_end, held)
    return held


def _end(held: subprocess.Popen[str]) -> None:
    with held:
        assert held.stdin is not None
        held.stdin.close()
        held.wait(timeout=10)


def tileprof(folder: Path, words: Sequence[str]) -> None:
    """Run a command of `tileprof` in a folder; fails where it fails."""
    pytest.importorskip("torch")
    held = _server()
    assert held.stdin is not None
    assert held.stdout is not None
    held.stdin.write("\t".join((str(folder), *words)) + "\n")
    held.stdin.flush()
    assert held.stdout.readline() == "0\n"
