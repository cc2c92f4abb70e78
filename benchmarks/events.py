"""Cost of the stream of accesses for the interpreter: `python benchmarks/events.py [OUT.json]`.

Each kernel runs without a listener, with a log of the default window and with a log of every block,
one after the other in each round; the median over the rounds is processor time in ms.  The times
with `_table` are those to unfold a log into columns.  Without OUT it prints; with it, writes
what `benchmarks/results/events.json` holds.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.interpreter.kernels import MATMUL, SOFTMAX, VECTOR_ADD
from tests.verified import parse
from tileprof.runtime.events.access import listening
from tileprof.runtime.events.log import MOST_BLOCKS, EventLog
from tileprof.runtime.interpreter import InterpreterExecutable

ROUNDS = 9
EVERY = 1 << 30
"""A window that no grid exceeds."""


def cases() -> dict[str, tuple[str, list[Any], tuple[int, ...]]]:
    """Return the text, the arguments and the symbols of each kernel."""
    draw = np.random.default_rng(0)

    def make(*shape: int) -> np.ndarray[Any, Any]:
        return draw.standard_normal(shape, np.float32)

    n, m = 1_000_000, 512
    return {
        "vector_add 1,000,000": (VECTOR_ADD, [make(n), make(n), np.empty(n, np.float32)], (n,)),
        "matmul 512×512×512": (
            MATMUL, [make(m, m), make(m, m), np.empty((m, m), np.float32)], (m, m, m)
        ),
        "softmax 2,048×1,024": (
            SOFTMAX, [make(2048, 1024), np.empty((2048, 1024), np.float32)], (2048, 1024)
        ),
    }  # fmt: skip


def measure(text: str, values: list[Any], symbols: tuple[int, ...]) -> dict[str, Any]:
    """Return the times of one kernel."""
    executable = InterpreterExecutable(parse(text))
    times: dict[str, list[float]] = {
        "off": [], "window": [], "window_table": [], "every": [], "every_table": []
    }  # fmt: skip
    log = EventLog(EVERY)
    for _ in range(ROUNDS):
        log = EventLog(EVERY)
        for name, kept in (("off", None), ("window", EventLog()), ("every", log)):
            context = nullcontext() if kept is None else listening(kept)
            with context:
                times[name].append(timed(lambda: executable.run(values, symbols)))
            if kept is not None:
                times[f"{name}_table"].append(timed(kept.table))
    median = {name: statistics.median(each) for name, each in times.items()}

    def ratio(name: str) -> float:
        return round((median[name] + median[f"{name}_table"]) / median["off"], 2)

    return {
        **{f"{name}_ms": round(value, 2) for name, value in median.items()},
        "window_ratio": round(median["window"] / median["off"], 2),
        "every_ratio": round(median["every"] / median["off"], 2),
        "window_and_table_ratio": ratio("window"),
        "every_and_table_ratio": ratio("every"),
        "every_rows": len(log.table()),
    }


def timed(work: Callable[[], object]) -> float:
    """Return the processor time of a call in ms."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e3


def main() -> None:
    """Measure all kernels."""
    result = {
        "description": "Processor time of the interpreter without the stream of accesses, with a "
        f"log of {MOST_BLOCKS} blocks and with a log of every block, and of unfolding "
        f"each log into a table; medians of {ROUNDS} rounds, in ms.",
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "kernels": {name: measure(*case) for name, case in cases().items()},
    }
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
