"""Compares two sides on a suite: forms, times, and what brought the changes.

In: sides, a suite, settings.  Out: a `Report`.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tileprof.bench.gpu_state import read_gpu
from tileprof.errors import UsageError
from tileprof.trying.measuring import Pair

from . import commits, culprits
from .comparing import (
    Difference,
    chain,
    changed_launch,
    changed_tools,
    compare,
    last_level,
    same_code,
)
from .costs import changed_code, changed_resources, numbers, resources
from .forms import Forms, named, stored_forms
from .reports import CHANGED, Change, CommitChange, Report, Verdict
from .sides import Side, Sides
from .suites import Suite
from .timing import Times, Timing, repeated, timed
from .workers import Kernel, Place, SideError, Worker

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a comparison."""

    target: str = "sm_90a"
    device: str = ""
    """`cuda:N` or `cpu`; empty: kernels are compiled and not timed."""
    untimed: str = ""
    """Why there is no device."""
    same_suite: bool = False
    """Whether both sides compile the file as it is here, also where their trees have their own."""
    walk: bool = True
    """Whether commits, passes and options that bring a change are looked for."""
    seed: int = 0
    timing: Timing = field(default_factory=Timing)


def bisect(
    old: str, new: str, suite: Suite | None, sides: Sides, settings: Settings, tell: Tell
) -> Report:
    """Compare two sides, named as on the command line."""
    began = time.monotonic()
    if suite is not None and (held := suite.below([sides.root])) is not None:
        sides.suite_folder = str(held.parent)
    pair = (sides.side(old), sides.side(new))
    if all(each.kind == "stored" for each in pair):
        found = _stored(pair, settings)
    elif any(each.kind == "stored" for each in pair):
        raise UsageError(
            "stored kernels can only be compared with stored kernels",
            hint="Give a folder that Triton cached or dumped for both sides.",
        )
    elif suite is None:
        raise UsageError("no suite given", hint="Add FILE:KERNEL, FILE or a script.")
    else:
        found = _Comparison(pair, suite, sides, settings, tell).report()
    return replace(found, seconds=time.monotonic() - began)


def timed_pairs(
    old: Side, new: Side, suite: Suite, sides: Sides, settings: Settings, count: int
) -> dict[str, tuple[Pair, ...]]:
    """Return `count` pairs of processes of each kernel, whatever they show: to measure noise."""
    comparison = _Comparison((old, new), suite, sides, settings, lambda _: None)
    return comparison.repeated(count)


def _stored(pair: tuple[Side, Side], settings: Settings) -> Report:
    held = [named(stored_forms(Path(each.folder))) for each in pair]
    changes = [
        _change(name, held[0].get(name), held[1].get(name), None)
        for name in dict.fromkeys([*held[0], *held[1]])
    ]
    return Report(
        pair[0].text, pair[1].text, "stored kernels", "", "",
        "stored kernels are compared as they are, and not run", settings.timing.floor, ({}, {}),
        tuple(changes), {},
    )  # fmt: skip


def _change(
    name: str, old: Forms | None, new: Forms | None, times: Times | None, why: str = ""
) -> Change:
    if old is None or new is None:
        only: Verdict = "failed" if why else "only-new" if old is None else "only-old"
        known = old or new
        engine = known.engine if known else "tileprof"
        return Change(name, engine, only, None, "nothing", False, None, (), {}, {}, why=why)
    same = same_code(old, new)
    verdict: Verdict = "unchanged" if same else "changed"
    if times is not None:
        verdict = times.verdict
    return Change(
        name, new.engine, verdict, _difference(old, new, times), last_level(old, new), same, times,
        (*changed_code(old, new), *changed_resources(old, new)), changed_launch(old, new),
        changed_tools(old, new), (numbers(old), numbers(new)), (), why,
    )  # fmt: skip


def _difference(old: Forms, new: Forms, times: Times | None) -> Difference:
    """Return the first level that differs; clocks where only they explain another time."""
    found = compare(old, new)
    if found.level != "nothing" or times is None or times.verdict not in CHANGED:
        return found
    if not times.clocks_differ or times.clocks is None:
        return found
    before, after = times.clocks
    return replace(found, level="clocks", text=f"SM clock {before:.0f} → {after:.0f} MHz")


class _Comparison:
    def __init__(
        self, pair: tuple[Side, Side], suite: Suite, sides: Sides, settings: Settings, tell: Tell
    ) -> None:
        self._pair, self._suite, self._sides = pair, suite, sides
        self._settings, self._tell = settings, tell
        below = None if settings.same_suite else suite.below([sides.root, str(Path.cwd())])
        if below and not all(each.tree and (Path(each.tree) / below).is_file() for each in pair):
            below = None
        self._place = Place(settings.target, settings.device, below, settings.seed)
        self._made = 0

    def report(self) -> Report:
        settings = self._settings
        self._tell(f"compiling on both sides: {self._suite}")
        with self._workers() as (old, new):
            names = list(dict.fromkeys(each.name for each in (*old.kernels, *new.kernels)))
            if not names:
                raise self._empty(old, new)
            forms, failed = self._forms(names, old, new)
            times, failures = self._times(names, forms, (old, new))
            changes = [
                _change(n, *forms[n], times.get(n), failed.get(n, failures.get(n, "")))
                for n in names
            ]
            if settings.walk:
                changes = [
                    self._with_culprits(each, forms[each.kernel], old, new) for each in changes
                ]
            facts, skipped = (old.facts, new.facts), {**old.skipped, **new.skipped}
        found = Report(
            self._pair[0].text, self._pair[1].text, str(self._suite), settings.target,
            settings.device, settings.untimed, settings.timing.floor, facts, tuple(changes),
            skipped, missing=_missing(forms),
            gpu=read_gpu() if settings.device.startswith("cuda") else None,
        )  # fmt: skip
        return self._walked(found) if settings.walk else found

    def _empty(self, old: Worker, new: Worker) -> UsageError:
        why = "; ".join(f"{n}: {w}" for n, w in {**old.skipped, **new.skipped}.items())
        return UsageError(
            f"no kernel of {self._suite} could be compiled{f' ({why})' if why else ''}",
            hint="Give the values that kernels need: --set NAME=VALUE.",
        )

    # -- workers

    @contextlib.contextmanager
    def _workers(
        self, pair: tuple[Side, Side] | None = None, is_new_first: bool = False
    ) -> Iterator[tuple[Worker, Worker]]:
        self._made += 1
        folder = self._sides.folder / f"workers-{self._made}"
        old, new = pair or self._pair
        made = [
            Worker(side, self._suite, self._place, folder / name)
            for side, name in ((old, "old"), (new, "new"))
        ]
        try:
            # Both load the suite at the same time.
            for each in made[::-1] if is_new_first else made:
                each.start()
            with made[0] as first, made[1] as second:
                yield first, second
        finally:
            for each in made:
                each.end()

    # -- forms

    def _forms(
        self, names: Sequence[str], old: Worker, new: Worker
    ) -> tuple[dict[str, tuple[Forms | None, Forms | None]], dict[str, str]]:
        forms: dict[str, tuple[Forms | None, Forms | None]] = {}
        failed: dict[str, str] = {}
        for name in names:
            made: list[Forms | None] = []
            for worker in (old, new):
                kernel = worker.kernel(name)
                try:
                    made.append(None if kernel is None else self._whole(worker, kernel))
                except SideError as error:
                    made.append(None)
                    failed[name] = error.message
            forms[name] = (made[0], made[1])
            if made[0] and made[1] and not same_code(made[0], made[1]):
                forms[name] = self._with_passes(name, forms[name], old, new)
        return forms, failed

    def _whole(self, worker: Worker, kernel: Kernel) -> Forms:
        # What Triton prints between passes is long, and only wanted of kernels that differ.
        return worker.forms(kernel, passes=kernel.engine == "tileprof")

    def _with_passes(
        self, name: str, held: tuple[Forms | None, Forms | None], old: Worker, new: Worker
    ) -> tuple[Forms | None, Forms | None]:
        kernels = (old.kernel(name), new.kernel(name))
        if kernels[0] is None or kernels[1] is None or kernels[1].engine != "triton":
            return held
        return old.forms(kernels[0], passes=True), new.forms(kernels[1], passes=True)

    # -- times

    def _times(
        self, names: Sequence[str], forms: Mapping[str, tuple[Forms | None, Forms | None]],
        first: tuple[Worker, Worker],
    ) -> tuple[dict[str, Times], dict[str, str]]:  # fmt: skip
        both = [name for name in names if all(forms[name])]
        if not self._settings.device or not both:
            return {}, {}
        return self._timed(both, self._pair, first)

    def _timed(
        self, names: Sequence[str], sides: tuple[Side, Side],
        first: tuple[Worker, Worker] | None = None,
    ) -> tuple[dict[str, Times], dict[str, str]]:  # fmt: skip
        def pairs(number: int) -> contextlib.AbstractContextManager[tuple[Worker, Worker]]:
            self._tell(f"timing, pair of processes {number + 1}")
            if number == 0 and first is not None:
                return contextlib.nullcontext(first)
            return self._workers(sides, is_new_first=number % 2 == 1)

        on_gpu = self._settings.device.startswith("cuda")
        look = read_gpu if on_gpu else (lambda: None)
        return timed(names, pairs, self._settings.timing, look)

    def repeated(self, count: int) -> dict[str, tuple[Pair, ...]]:
        """Return pairs of every kernel."""
        with self._workers() as (old, new):
            names = [each.name for each in old.kernels if new.kernel(each.name)]

        def pairs(number: int) -> contextlib.AbstractContextManager[tuple[Worker, Worker]]:
            return self._workers(is_new_first=number % 2 == 1)

        return repeated(names, pairs, self._settings.timing, count)

    # -- what brought a change

    def _with_culprits(
        self, change: Change, forms: tuple[Forms | None, Forms | None], old: Worker, new: Worker
    ) -> Change:
        kernels = (old.kernel(change.kernel), new.kernel(change.kernel))
        told = change.verdict in CHANGED or change.verdict == "undecided"
        if not told or change.same_code or change.difference is None:
            return change
        if not (kernels[0] and kernels[1] and forms[0] and forms[1]):
            return change
        self._tell(f"looking for what changed {change.kernel}")
        pair = culprits.Pair(old, new, (kernels[0], kernels[1]), (forms[0], forms[1]))
        with contextlib.suppress(SideError):
            found = tuple(culprits.all_of(pair, change.difference))
            return replace(change, culprits=found, difference=self._told(change, found, pair))
        return change

    def _told(
        self, change: Change, found: Sequence[culprits.Culprit], pair: culprits.Pair
    ) -> Difference:
        """Return the difference without options that turned out to have no effect."""
        difference = change.difference
        assert difference is not None
        if difference.level != "options":
            return difference
        acting = [each.name for each in found if each.kind == "option"]
        if not acting:
            old, new = pair.forms
            return compare(old, replace(new, options=old.options))
        return replace(difference, step=", ".join(acting))

    # -- commits

    def _walked(self, found: Report) -> Report:
        old, new = self._pair
        if old.kind != "commit" or new.kind != "commit":
            return found
        changed = [each.kernel for each in found.changed if not each.same_code]
        if not changed:
            return found
        ends = [self._sides.commit(each.text) for each in self._pair]
        between = self._sides.between(*ends)
        turned = not between or not self._sides.is_before(*ends)
        if turned:
            between = self._sides.between(*reversed(ends))
            if not between or not self._sides.is_before(*reversed(ends)):
                why = f"{old} and {new} lie on different branches, so no commits are between them"
                return replace(found, no_walk=why)
        order = [ends[1 if turned else 0], *between]
        walk = commits.Walk(order, self._code_of)
        steps = walk.steps(changed)
        made = tuple(self._commit(step, order) for step in steps)
        return replace(found, commits=made, tried=walk.tried)

    def _code_of(self, commit: str) -> commits.Code | None:
        self._tell(f"compiling at {self._sides.subject(commit)}")
        try:
            with self._worker(commit) as worker:
                return {each.name: _digest(worker.forms(each)) for each in worker.kernels}
        except (SideError, UsageError):
            return None
        finally:
            self._sides.forget(commit)

    @contextlib.contextmanager
    def _worker(self, commit: str) -> Iterator[Worker]:
        self._made += 1
        side = self._sides.of_commit(commit).with_controls(self._pair[1].controls)
        folder = self._sides.folder / f"workers-{self._made}"
        place = replace(self._place, device="") if self._suite.kind == "file" else self._place
        with Worker(side, self._suite, place, folder) as worker:
            yield worker

    def _commit(self, step: commits.CommitStep, order: Sequence[str]) -> CommitChange:
        sides = tuple(
            self._sides.of_commit(each).with_controls(self._pair[1].controls)
            for each in (step.before, step.commit)
        )
        kernels: dict[str, Difference | None] = dict.fromkeys(step.kernels)
        with contextlib.suppress(SideError), self._workers((sides[0], sides[1])) as (old, new):
            for name in step.kernels:
                pair = (old.kernel(name), new.kernel(name))
                if pair[0] and pair[1]:
                    kernels[name] = compare(
                        old.forms(pair[0], passes=True), new.forms(pair[1], passes=True)
                    )
        verdicts: dict[str, Verdict] = {}
        if self._settings.device:
            times, _ = self._timed(step.kernels, (sides[0], sides[1]))
            verdicts = {name: each.verdict for name, each in times.items()}
        return CommitChange(
            step.commit, self._sides.subject(step.commit), kernels, len(step.between),
            self._sides.files_of(step.commit), verdicts,
        )  # fmt: skip


def _digest(forms: Forms) -> str:
    """Return a digest of what a GPU runs."""
    states = chain(forms)
    parts: list[Any] = [states[-1].normal if states else "", resources(forms), dict(forms.launch)]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _missing(forms: Mapping[str, tuple[Forms | None, Forms | None]]) -> str:
    names = {each.missing for pair in forms.values() for each in pair if each and each.missing}
    return ", ".join(sorted(names))
