"""Time from a key to its picture in the interactive view.

    python benchmarks/terminal_view.py [OUT.json] [--nodes N]

A profile of 100,000 nodes is shown without a terminal, by Textual's pilot, in 160 columns and 50
lines. A picture is what the view would send to the terminal: it is rendered to its escape sequences
here too. The time of a key ends with the last picture that follows it. The processor's time until
then, in all threads, stands beside it: other programs do not add to that one. Without OUT it
prints; with it, writes what `benchmarks/results/terminal-view.json` holds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Iterator
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from tileprof.errors import Location
from tileprof.profile import Profile, TreeBuilder
from tileprof.tui import Browser, OneProfile
from tileprof.viewer import ViewOptions

NODES = 100_000
SIZE = (160, 50)
DEEPEST = 40
"""Number of nodes above the deepest ones."""
QUIET_S = 0.06
"""Seconds without another picture after which a key's pictures are complete."""
ROUNDS = 60
"""Keys of each kind, in either state of the tree."""
WORDS = ("frame_12", "kernel_7", "mod1", "op_2.*9", "scope_1(2|3)", "api_299", "line")


def made(nodes: int) -> Profile:
    """Return a tree of that many nodes: paths of frames, scopes and operations to kernels."""
    draw, builder = random.Random(1), TreeBuilder()
    inner = [(-1, 0)]
    while len(builder) < nodes:
        # Mostly below nodes that came late, so that paths get deep.
        parent, depth = inner[int(len(inner) * draw.random() ** 0.5 * 0.999999)]
        if depth >= DEEPEST:
            continue
        kind = draw.choice(("frame", "frame", "frame", "scope", "op", "api", "kernel"))
        name = f"{kind}_{draw.randrange(3000)}"
        place = None
        if kind in ("frame", "scope"):
            file = f"pkg/mod{draw.randrange(50)}.py"
            place = Location(file, draw.randrange(1, 400), function=name)
        before = len(builder)
        node = builder.child(parent, kind, name, place)
        builder.add(node, "cpu_time", draw.randrange(1000, 10**7))
        if kind == "kernel":
            builder.add(node, "time", draw.randrange(1000, 10**7))
            builder.add(node, "count", draw.randrange(1, 50))
        elif len(builder) > before:
            inner.append((node, depth + 1))
    return builder.snapshot()


class Watched(Browser):
    """The view, which notes when each picture was complete."""

    pictures: list[float]
    """Times of the pictures since the last key, in s."""
    cpu: float
    """Time of the processor at the last one, in s."""

    def _display(self, screen: Any, renderable: Any) -> None:
        super()._display(screen, renderable)
        if renderable is not None and not self._batch_count:
            # Without a terminal, Textual stops short of this.
            if hasattr(renderable, "render_segments"):
                renderable.render_segments(self.console)
            else:
                self.console._render_buffer(self.console.render(renderable))
            self.pictures.append(time.perf_counter())
            self.cpu = time.process_time()


class Times(NamedTuple):
    """Times of a key in ms."""

    wall: float
    cpu: float


async def picture(app: Watched, pilot: Any, *keys: str) -> Times:
    """Press keys and return the time until the last picture; NaN where there is none."""
    app.pictures.clear()
    begin, cpu = time.perf_counter(), time.process_time()
    await pilot.press(*keys)
    while not app.pictures or time.perf_counter() - app.pictures[-1] < QUIET_S:
        await asyncio.sleep(QUIET_S / 4)
        if not app.pictures and time.perf_counter() - begin > 1:
            return Times(math.nan, math.nan)  # the key changes nothing
    return Times((app.pictures[-1] - begin) * 1e3, (app.cpu - cpu) * 1e3)


async def settled(app: Watched, pilot: Any, *keys: str) -> float:
    """Press keys that have lines or texts made, and return the time until these are there."""
    took = await picture(app, pilot, *keys)
    begin = time.perf_counter()
    while any(True for _ in app.workers):
        await asyncio.sleep(0.005)
    return took.wall + (time.perf_counter() - begin) * 1e3


async def measure(profile: Profile) -> dict[str, Any]:
    """Return the times of all keys."""
    app = Watched(OneProfile(profile), ViewOptions())
    app.pictures = []
    draw = random.Random(2)
    began = time.perf_counter()
    times: dict[str, list[Times]] = {"move": [], "fold": [], "search": []}
    others: dict[str, float] = {}
    async with app.run_test(size=SIZE) as pilot:
        while app.tree_pane.state is None:
            await asyncio.sleep(0.005)
        await picture(app, pilot, "down")
        others["first picture"] = (time.perf_counter() - began) * 1e3
        state = app.tree_pane.state
        for is_open in (False, True):
            if is_open:
                state.set_threshold(0)
                app.tree_pane.redraw()
                await picture(app, pilot, "home")
                for line in state.visible[state.rows.outline.depths[state.visible] == 0].tolist():
                    state.set_all_open(line, True)
                others["open all"] = (await picture(app, pilot, "plus")).wall
                others["lines in sight"] = len(state)
            for keys in moves(draw):
                times["move"].append(await picture(app, pilot, *keys))
            for _ in range(ROUNDS):
                if is_open:
                    state.choose(draw.randrange(len(state)))
                    app.tree_pane.redraw()
                    await picture(app, pilot, "down")
                key = draw.choice(("left", "right", "enter", "enter", "plus", "minus"))
                times["fold"].append(await picture(app, pilot, key))
            for number in range(ROUNDS // 10):
                times["search"] += [each async for each in search(app, pilot, WORDS[number])]
        for name, keys in (("sort", "s"), ("group", "g")):
            await picture(app, pilot, keys)
            others[name] = await settled(app, pilot, "down", "enter")
    return {
        "keys": {name: summary(each) for name, each in times.items()},
        "others": rounded(others),
    }


def moves(draw: random.Random) -> Iterator[tuple[str, ...]]:
    """Yield keys that choose other lines."""
    for _ in range(ROUNDS):
        yield (draw.choice(("down", "down", "down", "up", "pagedown", "pageup", "end", "home")),)


async def search(app: Watched, pilot: Any, word: str) -> Any:
    """Yield the time of each letter of a search, and of keys that go on to other matches."""
    await picture(app, pilot, "slash")
    for letter in word:
        if not math.isnan((took := await picture(app, pilot, letter)).wall):
            yield took
    await picture(app, pilot, "enter")
    for key in ("n", "n", "N"):
        if not math.isnan((took := await picture(app, pilot, key)).wall):
            yield took
    await picture(app, pilot, "escape")


def summary(times: list[Times]) -> dict[str, float]:
    """Return how many there are, and the median, the 95th percentile and the longest, in ms."""
    known = [each for each in times if not math.isnan(each.wall)]
    walls, cpus = sorted(each.wall for each in known), sorted(each.cpu for each in known)
    at = math.ceil(0.95 * len(known)) - 1
    return {
        "keys": len(known),
        "median_ms": round(statistics.median(walls), 1),
        "p95_ms": round(walls[at], 1),
        "longest_ms": round(walls[-1], 1),
        "cpu_p95_ms": round(cpus[at], 1),
    }


def rounded(values: dict[str, float]) -> dict[str, float]:
    """Return times in whole ms."""
    return {name: round(value) for name, value in values.items()}


def main() -> None:
    """Measure, then print or write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--nodes", type=int, default=NODES)
    given = parser.parse_args()
    result = {
        "description": "Interactive view of a profile: time from a key to its last picture, in ms, "
        "by kind of key, with few lines in sight and with all; `others` has times of single "
        "actions in ms, and the lines in sight once all are open.",
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "textual": version("textual"),
        "processors": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 1),
        "nodes": given.nodes,
        "columns_and_lines": list(SIZE),
        **asyncio.run(measure(made(given.nodes))),
    }
    text = json.dumps(result, indent=1) + "\n"
    if given.out is not None:
        given.out.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
