"""What the tests of PyTorch's observer share: a model, and reading what was recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_recorder: Any = pytest.importorskip("tileprof.native._recorder")

_FRAME, _OP, _BACKWARD, _RANGE = 1, 3, 4, 5
_TESTS = Path(__file__).parent


@contextmanager
def attached(**options: bool) -> Iterator[None]:
    """PyTorch's observer is attached."""
    from tileprof.profiler.frameworks import observer

    observer.attach(tell=lambda line: None, **options)
    assert observer.why_not() == ""
    try:
        yield
    finally:
        observer.detach()


@contextmanager
def recorded() -> Iterator[None]:
    """Recording is on, with frames: that of another test may have been without."""
    _recorder.set_frames(True)
    _recorder.set_epoch(1)
    try:
        yield
    finally:
        _recorder.set_epoch(0)


class Seen:
    """What the recorder has measured since this was made."""

    def __init__(self) -> None:
        self._before = {context: row for context, *row in _recorder.host_times()}

    def rows(self) -> list[tuple[int, int, float, float]]:
        """Context, count, flops and bytes of everything since."""
        rows = []
        for context, *now in _recorder.host_times():
            then = self._before.get(context, (0,) * 7)
            count, _, _, flops, moved, *_ = (a - b for a, b in zip(now, then))
            if any(now) and tuple(now) != tuple(then):
                rows.append((context, int(count), flops, moved))
        return rows

    def counts(self) -> Counter[str]:
        """How often each operation ran, by name."""
        known, found = _recorder.contexts(0), Counter[str]()
        for context, count, _, _ in self.rows():
            if known[context][1] in (_OP, _BACKWARD, _RANGE):
                found[_recorder.name(known[context][2])] += count
        return found

    def paths(self) -> dict[str, tuple[int, float, float]]:
        """Count, flops and bytes by path, functions of tests alone."""
        known = _recorder.contexts(0)
        found: dict[str, tuple[int, float, float]] = {}
        for context, *row in self.rows():
            path, at = [], context
            while at:
                parent, kind, a, _ = known[at]
                if kind == _FRAME:
                    # Those of a test: who calls the test is pytest's matter, and PyTorch's ways
                    # from a module to its operation differ between versions.
                    if Path(a.co_filename).parent == _TESTS:
                        path.append(f"{a.co_name}()")
                elif kind in (_OP, _RANGE):
                    path.append(_recorder.name(a))
                elif kind == _BACKWARD:
                    path.append(f"<- {_recorder.name(a)}")
                at = parent
            text = " / ".join(reversed(path))
            count, flops, moved = found.get(text, (0, 0.0, 0.0))
            found[text] = (count + int(row[0]), flops + row[1], moved + row[2])
        return found

    def sampled(self) -> dict[str, float]:
        """Mean bytes of the sampled visits of each operation, by name."""
        known, found = _recorder.contexts(0), dict[str, float]()
        for context, *now in _recorder.host_times():
            then = self._before.get(context, (0,) * 7)
            moved, visits = now[5] - then[5], now[6] - then[6]
            if visits and known[context][1] in (_OP, _BACKWARD):
                found[_recorder.name(known[context][2])] = moved / visits
        return found

    def flops(self) -> float:
        """Sum over everything."""
        return sum(flops for _, _, flops, _ in self.rows())


def square(then: Callable[[Any], Any]) -> Any:
    """A function of PyTorch's written in Python, half of whose gradient goes through `then`."""
    torch: Any = pytest.importorskip("torch")

    class Square(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return then(g * ctx.saved_tensors[0])

    return Square


def net() -> Any:
    """A convolution, a normalisation, two matrices: from (n, 3, 8, 8) to (n, 2)."""
    nn = pytest.importorskip("torch").nn
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, stride=2),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 8),
        nn.GELU(),
        nn.Linear(8, 2),
    )


def under(test: str, paths: dict[str, tuple[int, float, float]]) -> dict[str, int]:
    """Counts by path of what a test function called, without what PyTorch calls by the way."""
    start = f"{test}() / "
    plain = ("detach", "resolve_conj", "as_strided", "transpose", "empty", "_like", "fill_")
    return {
        path.removeprefix(start): row[0]
        for path, row in paths.items()
        if path.startswith(start) and not path.endswith(plain)
    }


def evaluated(node: str) -> str:
    """A node of the backward pass, in the engine's bracket."""
    return f"<- autograd::engine::evaluate_function: {node} / <- {node}"
