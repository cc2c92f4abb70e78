"""The interactive view: whole screens of small profiles after some keys."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("textual")

from tests.analyzer.test_host_programs import recordings
from tests.tui.screens import play
from tests.viewer.samples import matmul, node, profile_of, with_children
from tileprof.analyzer import analyze
from tileprof.profile import Profile, Tables, load
from tileprof.tui import Browser, OneProfile, TwoProfiles, Update
from tileprof.tui.keys import help_lines
from tileprof.viewer import ViewOptions, render_view

Golden = Callable[..., None]
STALLS = Path(__file__).parents[1] / "data" / "h200-stalls.tprof"


def with_source() -> Profile:
    """The profile of a script, with its text."""
    text = "\n".join(f"line({number})" for number in range(1, 61))
    profile = matmul()
    return replace(profile, tables=replace(profile.tables, sources={"/w/train.py": text}))


def test_the_tree_is_the_one_of_view() -> None:
    """Every line is as `tileprof view` prints it, but for the marks of what can be folded."""
    (shown,) = play(OneProfile(matmul()), options=ViewOptions(threshold=0), size=(141, 40))
    drawn = [line[1:].replace("▾ ", "") for line in shown.splitlines()[:-1]]
    printed = render_view(matmul(), ViewOptions(threshold=0), width=140).splitlines()
    assert drawn == printed[: len(drawn)]
    assert len(drawn) == 10


def test_folding_moving_and_searching(golden: Golden) -> None:
    """Arrows open and fold, a search opens what it finds."""
    steps = ("down down", "left", "slash s o f t", "enter", "escape", "home minus", "plus end")
    for number, screen in enumerate(play(OneProfile(matmul()), *steps)):
        golden(screen, name=str(number))


def test_panes_follow_the_chosen_line(golden: Golden) -> None:
    """Source with costs beside it; what a profile does not hold is said."""
    seen = play(OneProfile(with_source()), "1", "down", "2", "2", "4")
    assert "Source: /w/train.py:33" in seen[1]
    golden(seen[2])
    assert " SASS\n The profile has no samples or counts of instructions." in seen[3]
    assert "SASS" not in seen[4]
    assert "No program runs" in seen[5]


def test_findings_lead_to_their_kernel(golden: Golden) -> None:
    """Of a recording with samples: findings, the jump to a place, its machine code and source."""
    profile = load(STALLS)
    rules = [each.rule for each in analyze(profile).findings]
    down = " ".join(["down"] * rules.index("uncoalesced-global"))
    seen = play(OneProfile(profile), "3", down, "enter", "2", "1", size=(100, 40))
    assert "Findings: 1 of" in seen[1]
    assert ">suggestion: lanes of a warp access distant addresses" in seen[2]
    chosen = [line for line in seen[3].splitlines() if line.startswith(">") and "kernel" in line]
    assert ["uncoalesced" in line for line in chosen] == [True]
    assert "SASS: uncoalesced" in seen[4]
    assert "LDG.E.STRONG.GPU" in seen[4]
    golden(seen[5])


def test_groups_metrics_and_views_are_chosen_from_lists() -> None:
    """Each makes the tree anew; an option that the profile does not fit is refused."""
    keys = ("g", "home down down down enter", "g", "end enter", "s", "home down enter", "v",
            "end enter", "t", "home enter")  # fmt: skip
    *_, by_kernel, _, refused, _, by_cpu, _, flat, _, everything = play(OneProfile(matmul()), *keys)
    assert "grouped by kernel" in by_kernel
    assert "▾ matmul  kernel" in by_kernel
    assert "the profile does not know the stream of any kernel" in refused
    assert "▾ matmul  kernel" in refused
    assert "sorted by cpu_time" in by_cpu
    assert by_cpu.splitlines()[1].split()[0] == "cpu_time"
    assert " flat" in flat
    assert "├" not in flat
    assert "out of sight" in flat
    assert "out of sight" not in everything


def test_two_profiles_compared(golden: Golden) -> None:
    """The numbers of `tileprof diff`; groups are for one profile."""
    old = matmul()
    faster = {name: column.copy() for name, column in old.own.items()}
    kernel = old.find("matmul", "kernel")[0]
    faster["time"][kernel] = faster["time"][kernel] / 2
    new = replace(old, own=faster, whole={**old.whole, "time": faster["time"].sum().item()})
    seen = play(TwoProfiles(old, new), "down", "g")
    golden(seen[0])
    assert "not for two profiles compared" in seen[2]


def test_what_a_terminal_would_obey_is_shown_as_text() -> None:
    """Names, commands and sources of a file reach the screen in Python's spelling."""
    evil = "\x1b[2Jname\x07‮"
    profile = profile_of(
        with_children(
            node("frame", evil, "/w/\x1b]0;x.py:1", cpu_time=5.0, time=1.0),
            node("kernel", f"[bold]{evil}", time=5.0),
        ),
        tables=Tables(
            provenance={"command": evil}, sources={"/w/\x1b]0;x.py": f"first {evil}\nsecond"}
        ),
    )
    for screen in play(OneProfile(profile), "1", "slash \x1b", "escape", "s"):
        assert not set(screen) & {"\x1b", "\x07", "‮"}
        assert r"\x1b[2Jname\x07" in screen
    plain = play(OneProfile(matmul()), "1", unicode=False)[-1]
    assert plain.isascii()


@pytest.mark.spread("size0")
@pytest.mark.parametrize("size", [(80, 24), (20, 4)])
def test_any_size_of_a_terminal_will_do(size: tuple[int, int]) -> None:
    """Columns go, lines scroll, nothing breaks; and an empty profile says that it is empty."""
    seen = play(OneProfile(matmul()), "1 end", "pageup home 1 3", "question_mark", size=size)
    assert all(len(line) <= size[0] + 1 for screen in seen for line in screen.splitlines())
    (empty,) = play(OneProfile(profile_of()), size=(60, 10))
    assert "The profile is empty" in empty


class Growing:
    """A program whose snapshots come when they are asked for."""

    def __init__(self, snapshots: Sequence[Profile]) -> None:
        self.snapshots = list(snapshots)
        self.taken = self.wanted = self.interrupted = 0
        self.seen = False
        self.stopped = threading.Event()

    def next(self) -> Update:
        """The next snapshot once it is wanted."""
        while self.taken == self.wanted:
            if self.stopped.wait(0.005):
                return Update("left", is_over=True)
            if not self.seen:
                self.seen = True
                return Update("runs")
        profile = self.snapshots[self.taken]
        self.taken += 1
        is_over = self.taken == len(self.snapshots)
        return Update("is over" if is_over else "runs", OneProfile(profile), is_over)

    async def more(self, view: Browser) -> None:
        """Ask for a snapshot and wait until it has come."""
        self.wanted += 1
        while self.taken < self.wanted:
            await asyncio.sleep(0.005)

    def output(self) -> list[str]:
        """What it printed."""
        return [f"step {number}" for number in range(100)]

    def stop(self) -> None:
        """Wait no longer."""
        self.stopped.set()

    def interrupt(self) -> bool:
        """Count."""
        self.interrupted += 1
        return True


def test_a_tree_that_grows_keeps_the_readers_place() -> None:
    """Folds and the chosen line stay as snapshots come; the output is followed to its end."""

    def snapshot(steps: int) -> Profile:
        kernels = [node("kernel", f"k{k}", time=10.0 * (k + 1)) for k in range(steps)]
        return profile_of(
            with_children(node("scope", "step"), *kernels), node("scope", "a", time=1e3 * steps)
        )

    feed = Growing([snapshot(2), snapshot(3), snapshot(4)])
    steps = (feed.more, "end left left left", feed.more, "4", "ctrl+c", feed.more, "4 enter")
    screens = play(OneProfile(profile_of()), *steps, feed=feed, size=(60, 30))
    assert screens[0] == " runs\n"
    assert "k1" in screens[1]
    for screen, total in zip(screens[2:4], ("2.03 µs", "3.06 µs")):
        assert "k1" not in screen
        (chosen,) = [line for line in screen.splitlines() if line.startswith(">")]
        assert "▸ step" in chosen
        assert total in screen
    assert screens[4].splitlines()[-2].strip() == "step 99"
    assert feed.interrupted == 1
    assert "is over" in screens[6]
    assert "k3" in screens[7]


def test_the_help_and_the_page_name_every_key() -> None:
    """One line each, with what it does; the page has the same table."""
    keys = help_lines()
    assert {"/", "n", "s", "g", "v", "f", "t", "1", "2", "3", "4", "?", "q"} <= {*dict(keys)}
    page = (Path(__file__).parents[2] / "docs" / "interactive.md").read_text()
    table = page.partition("| --- | --- |\n")[2].partition("\n\n")[0]
    assert table.splitlines() == [f"| {key} | {meaning} |" for key, meaning in keys]


@pytest.mark.spread("loader")
@pytest.mark.parametrize("name", ["transformer", "loader"])
def test_recordings_of_trainings_are_browsed(name: str) -> None:
    """Each view and pane of a real recording, findings and groups included, draws without fault."""
    profile = recordings()[name]
    keys = ("3", "1", "g", "escape", "v", "down enter", "question_mark", "escape")
    first, findings, source, *_ = play(OneProfile(profile), *keys, size=(120, 40))
    assert "total" in first
    assert "Findings: 1 of" in findings
    assert "Source: " in source or "does not hold the text" in source
