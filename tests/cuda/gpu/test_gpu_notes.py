"""Failed index checks on a real GPU: `python -m pytest -m gpu tests/cuda/gpu`."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tileprof
from tileprof.errors import BoundsError
from tileprof.runtime.cuda import native_launcher as cuda_native

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parents[3]
tiles: Any = importlib.import_module("tests.cuda.gpu.tiles")
cuda: Any = torch.cuda
LATER = r"at \[-3\].*point \(i=7\), noted by an earlier launch of `picked`"
BEGIN = (
    "import importlib, torch\n"
    "tiles = importlib.import_module('tests.cuda.gpu.tiles')\n"
    "table = torch.arange(50.0, device='cuda')\n"
    "index = torch.arange(40, dtype=torch.int32, device='cuda')\n"
    "index[7] = -3\n"
)


def operands(count: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    """A table, and an index that is right."""
    table = torch.arange(2.0 * count, device="cuda")
    return table, torch.arange(count, dtype=torch.int32, device="cuda")


def script(body: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, with an index that is wrong."""
    return subprocess.run(
        [sys.executable, "-c", BEGIN + body], cwd=ROOT, env={**os.environ, **environment},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def test_a_call_does_not_wait() -> None:
    """Neither one that Python launches nor one of the native launcher."""
    table, index = operands(39)
    for _ in range(3):
        tiles.picked(table, index)  # the native launcher is compiled meanwhile
    for count in (40, 41):
        table, index = operands(count)
        assert torch.equal(tiles.picked(table, index), table[:count])
        for _ in range(3):
            torch.cuda.synchronize()
            cuda._sleep(200_000_000)
            found = tiles.picked(table, index)
            assert not cuda.current_stream().query()
            assert torch.equal(found, table[:count])


@pytest.mark.skipif(bool(cuda_native.why_not()), reason="there is no native launcher")
def test_native_calls() -> None:
    """They note, and they raise what was noted, once; the next one is right."""
    table, index = operands()
    for _ in range(3):
        tiles.picked(table, index)
    call = tiles.picked._warm.call
    for _ in range(2):
        index[7] = -3
        assert call((table, index)) is not NotImplemented
        torch.cuda.synchronize()
        index[7] = 7
        with pytest.raises(BoundsError, match=LATER):
            call((table, index))
        assert torch.equal(call((table, index)), table[:40])


def test_each_shape_has_its_words() -> None:
    """The shape is that of the launch that was wrong."""
    (table, index), (other, right) = operands(), operands(60)
    for _ in range(3):
        tiles.picked(other, right)
        tiles.picked(table, index)
    index[7] = -3
    tiles.picked(table, index)
    torch.cuda.synchronize()
    with pytest.raises(BoundsError, match=r"shape \[80\]"):
        tiles.picked(other, right)
    assert torch.equal(tiles.picked(other, right), other[:60])


def test_replays() -> None:
    """What a replay notes is raised by the next call; nothing while a graph is recorded."""
    table, index = operands()
    tiles.picked(table, index)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = tiles.picked(table, index)
    for _ in range(2):
        index[7] = -3
        graph.replay()
        torch.cuda.synchronize()
        index[7] = 7
        with pytest.raises(BoundsError, match=LATER):
            tiles.picked(table, index)
        graph.replay()
        assert torch.equal(found, table[:40])
        assert torch.equal(tiles.picked(table, index), found)


def test_a_capture_after_a_note() -> None:
    """It is recorded in peace; the error comes behind it."""
    table, index = operands()
    index[7] = -3
    tiles.picked(table, index)
    torch.cuda.synchronize()
    index[7] = 7
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = tiles.picked(table, index)
    with pytest.raises(BoundsError, match=LATER):
        tiles.picked(table, index)
    graph.replay()
    assert torch.equal(found, table[:40])


def test_host_arrays() -> None:
    """They are waited for, so the call raises itself."""
    table, index = (each.cpu().numpy() for each in operands())
    index[7] = -3
    with tileprof.device("cuda"), pytest.raises(BoundsError, match=r"\[-3\]") as e:
        tiles.picked(table, index)
    assert "earlier" not in str(e.value)


def test_launch_blocking() -> None:
    """Each call tells of itself."""
    body = (
        "for _ in range(4):\n"
        "    try: tiles.picked(table, index)\n"
        "    except IndexError as error: print('[-3]' in str(error), 'earlier' in str(error))\n"
    )
    done = script(body, CUDA_LAUNCH_BLOCKING="1")
    assert (done.returncode, done.stdout) == (0, "True False\n" * 4), done.stderr


def test_the_end_of_a_program() -> None:
    """What no call has raised is on stderr, also of a launch that is still under way."""
    body = (
        "tiles.picked(table, index.abs())\n"
        "torch.cuda._sleep(1_000_000_000)\n"
        "tiles.picked(table, index)\n"
    )
    done = script(body)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("noted by an earlier launch of `picked`") == 1
    assert "[-3]" in done.stderr
