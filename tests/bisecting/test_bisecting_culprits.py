"""Options and passes that bring a change, proved by what comes out without them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tileprof.bisecting import Forms, culprits
from tileprof.bisecting.forms import Step
from tileprof.bisecting.workers import Kernel, SideError

PASSES = ("frontend", "choose", "peel", "layouts")
KERNEL = Kernel("k", "tileprof", 0)


@dataclass
class Compiler:
    """A compiler whose passes add a word to the program; options are words of the last one."""

    words: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    refuses: str = ""

    def forms(
        self, kernel: Kernel, controls: Mapping[str, Any] | None = None, *, passes: bool = False
    ) -> Forms:
        options = {**self.options, **(controls or {})}
        return self._made("", PASSES, options)

    def resumed(self, kernel: Kernel, step: str, text: str) -> Forms:
        if step == self.refuses:
            raise SideError("it is of another form")
        return self._made(text, PASSES[PASSES.index(step) + 1 :], self.options)

    def _made(self, text: str, steps: tuple[str, ...], options: Mapping[str, Any]) -> Forms:
        made = []
        for step in steps:
            text += f" {self.words.get(step, step)}"
            made.append(Step(step, text))
        effect = {name: value for name, value in options.items() if name != "idle"}
        end = f"{text} {sorted(effect.items())}"
        shown = {name: str(value) for name, value in options.items()}
        return Forms("k", "tileprof", "source", {}, shown, tuple(made),
                     (Step("CUDA C++", end),), (), "", b"", {}, {})  # fmt: skip


def pair(old: Compiler, new: Compiler) -> culprits.Pair:
    """Return a kernel on both sides."""
    forms = (old.forms(KERNEL), new.forms(KERNEL))
    return culprits.Pair(old, new, (KERNEL, KERNEL), forms)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("new", "named"),
    [
        ({"a": 2, "b": 1, "idle": 1}, ["a"]),
        ({"a": 2, "b": 2, "idle": 2}, ["a", "b"]),
        ({"a": 1, "b": 1, "idle": 2}, ["idle"]),
    ],
)
def test_fewest_options_that_bring_the_old_code_back(new: dict[str, int], named: list[str]) -> None:
    """One alone, two together; the only one that differs is tried, whatever it does."""
    old = {"a": 1, "b": 1, "idle": 1}
    found = culprits.options(pair(Compiler({}, old), Compiler({}, new)))
    assert [each.name for each in found] == named
    assert all(each.restores for each in found)


def test_each_pass_that_changed_is_found_behind_the_one_before() -> None:
    """The new side goes on from the old side's program, so that later passes are seen."""
    new = Compiler({"choose": "other", "layouts": "wide"})
    found = culprits.passes(pair(Compiler({}), new))
    assert [(each.name, each.restores) for each in found] == [("choose", True), ("layouts", True)]
    assert "together with layouts" in found[0].text


def test_program_that_the_new_side_refuses_ends_the_search() -> None:
    """What is found up to there is named, and nothing is claimed of the rest."""
    new = Compiler({"choose": "other", "layouts": "wide"}, refuses="choose")
    (found,) = culprits.passes(pair(Compiler({}), new))
    assert (found.name, found.restores) == ("choose", False)
    assert found.text.endswith("the new side does not take it up")


def test_option_that_undoes_a_pass_is_a_way_out() -> None:
    """Switched off on the new side it gives the old side's code."""

    class Peeling(Compiler):
        def forms(self, kernel: Kernel, controls: Any = None, *, passes: bool = False) -> Forms:
            on = (controls or {}).get("peel", True)
            made = Compiler({"peel": "peeled"} if on else {}).forms(kernel)
            return Forms(made.kernel, made.engine, made.source, {}, {"peel": str(on)}, made.ir,
                         made.code, (), "", b"", {}, {})  # fmt: skip

    (found,) = culprits.switches(pair(Compiler({}), Peeling({})), "peel")
    assert (found.kind, found.name) == ("switch", "peel")
