"""Size and first picture of a drawing's page: `python benchmarks/show.py [OUT.json]`.

Each kernel runs in the interpreter, plain and watched, and its page is opened in Chromium.  The
first picture is the time until the first view is on the screen.  All are medians over the rounds.
Without OUT it prints; with it, writes what `benchmarks/results/show.json` holds.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import tileprof
from case_studies.flash_attention import flash_attention
from case_studies.matmul import matmul
from case_studies.vector_add import vector_add
from tests.viewer.browser import Browser, chromium

ROUNDS = 3
READY = "performance.getEntriesByName('ready')[0].startTime"
VIEWS = ("#blocks", "#steps", "#accesses", "#layouts")


def cases() -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    """Return each kernel and its arguments."""
    draw = np.random.default_rng(0)

    def make(*shape: int) -> np.ndarray[Any, Any]:
        return draw.standard_normal(shape, np.float32)

    heads = [make(1, 1024, 4, 64) for _ in "QKV"]

    def product(a: Any, b: Any) -> Any:
        return matmul(a, b, block_M=16, block_N=16, block_K=32)

    return {
        "matmul 1,024×1,024×512 in tiles of 16": (product, [make(1024, 512), make(512, 1024)]),
        "flash_attention 4×1,024×64, causal": (flash_attention(1, 4, 1024, 64, True), heads),
        "vector_add 1,048,576": (vector_add, [make(1 << 20), make(1 << 20)]),
    }


def measure(browser: Browser, folder: Path, kernel: Callable[..., Any], args: list[Any]) -> Any:
    """Return the page's size and the times of one kernel."""
    times: dict[str, list[float]] = {name: [] for name in ("plain", "watched", "page", *VIEWS)}
    path = folder / "page.html"
    for _ in range(ROUNDS):
        with tileprof.device("interpreter"):
            times["plain"].append(timed(lambda: kernel(*args)))
        start = time.perf_counter()
        drawing = tileprof.show(kernel, *args)
        times["watched"].append(time.perf_counter() - start)
        times["page"].append(timed(partial(drawing.save, path)))
        for view in VIEWS:
            browser.open(path, view)
            times[view].append(browser.run(READY) / 1000)
    median = {name: statistics.median(each) for name, each in times.items()}
    return {
        "blocks": sum(each.blocks for each in drawing.watch.launches),
        "page_MB": round(path.stat().st_size / 1e6, 3),
        "first_picture_s": round(median["#blocks"], 3),
        "slowest_view_s": round(max(median[view] for view in VIEWS), 3),
        "page_s": round(median["page"], 3),
        "watched_ratio": round(median["watched"] / median["plain"], 2),
    }


def timed(work: Callable[[], object]) -> float:
    """Return the time of a call in s."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Measure all kernels."""
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(chromium(), Path(folder) / "browser")
        kernels = {name: measure(browser, Path(folder), *case) for name, case in cases().items()}
        browser.close()
    result = {
        "description": "Page of `tileprof.show`: its size, time until the first view and the "
        "slowest view are on the screen in Chromium, time to make it, and the interpreter's time "
        f"watched against plain; medians of {ROUNDS} rounds.",
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "kernels": kernels,
    }
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
