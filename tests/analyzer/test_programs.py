"""All rules about programs on one tree: what they say of a training step, and how fast."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.analyzer.steps import DEPENDENT, LATE, TORCH, Step, training
from tileprof.analyzer import analyze
from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Contexts
from tileprof.analyzer.drafts import ProgramRule
from tileprof.analyzer.rules import PROGRAM_RULES
from tileprof.profile import Profile, TreeBuilder, load, save

_SUGGESTED = {"transfers", "backward-ratio", "fusion"}


def test_a_training_step() -> None:
    """The case study: what it finds by hand is suggested, and that its layers are not fused."""
    said = analyze(training().profile()).findings
    names = {rule.name for rule in PROGRAM_RULES}
    assert {
        each.rule for each in said if each.severity == "suggestion" and each.rule in names
    } == _SUGGESTED  # fmt: skip
    assert all(each.program_gain for each in said if each.severity == "suggestion")


def test_findings_outlive_the_file(tmp_path: Path) -> None:
    """A profile that was written and read again says the same."""
    profile = training().profile()
    save(profile, tmp_path / "step.tprof")
    again = analyze(load(tmp_path / "step.tprof"))
    assert [each.title for each in again.findings] == [
        each.title for each in analyze(profile).findings
    ]


@pytest.mark.parametrize("rule", PROGRAM_RULES, ids=lambda rule: rule.name)
def test_nothing_and_next_to_nothing(rule: ProgramRule) -> None:
    """No nodes; a wait for a device that was not seen to work."""
    step = Step()
    step.wait(step.op(step.top, "aten::item"), 1e6)
    assert not list(rule.find(Program(TreeBuilder().snapshot())))
    assert all(draft.saving is None for draft in rule.find(Program(step.profile())))


def test_what_is_nested_counts_once() -> None:
    """Each gap, kernel and copy is in one node, so that shares of all of them add up to 1."""
    profile = big(2000)
    tree = Contexts(Program(profile))
    assert tree.share(float((tree.time + tree.gaps).sum())) == pytest.approx(1)
    inner = tree.kind("op", "frame")
    outer = tree.outermost(inner)
    assert (tree.below(outer) == tree.below(inner)).all()
    kernels = tree.kind("kernel")
    in_runs = [node for run in tree.runs(kernels, lambda _: "all") for node in run]
    assert sorted(in_runs) == kernels.nonzero()[0].tolist()
    before = tree.gaps_before(kernels, LATE, DEPENDENT)
    assert float(before.sum()) == pytest.approx(float(tree.gaps.sum()))


@pytest.mark.sweep
def test_work_grows_no_faster_than_the_tree(
    calls: Callable[[Callable[[], object]], int],
) -> None:
    """All rules about programs, each with a tree of its own to ask."""

    def ask(profile: Profile) -> None:
        assert [draft for rule in PROGRAM_RULES for draft in rule.find(Program(profile))]

    small, large = big(500), big(2_500)
    growth = len(large) / len(small)
    assert calls(lambda: ask(large)) < 1.3 * growth * calls(lambda: ask(small))


def test_a_place_has_the_names_of_modules() -> None:
    """A path in a finding names modules as trees do, without frames that only pass calls on."""
    step = Step()
    call = step.frame(step.top, "h.*.__call__", 1779, f"{TORCH}nn/modules/module.py")
    block = step.frame(call, "Block.forward", 7, "/env/lib/site-packages/models/gpt2.py")
    kernel = step.launch(step.op(block, "aten::mm"), "gemm", 1e6)
    path = Program(step.profile()).path(kernel)
    assert path == ("train", "step", "h.*: Block", "aten::mm", "gemm")


def big(nodes: int) -> Profile:
    """Modules inside one another with operations, launches, gaps, gradients, waits and copies."""
    step, chosen = Step(), random.Random(7)
    modules = [step.scope(step.top, "forward")]
    while len(step.builder) < nodes:
        above = step.frame(chosen.choice(modules[-40:]), "Block.forward", chosen.randrange(900))
        module = step.frame(above, "Linear.forward", chosen.randrange(90), f"{TORCH}nn/linear.py")
        modules.append(above)
        for name in chosen.sample(["aten::mm", "aten::add", "aten::copy_", "aten::index"], 3):
            op = step.op(module, name, flops=1e9, cpu_time=1e4)
            gaps = {chosen.choice((LATE, DEPENDENT)): chosen.randrange(10**4)}
            kernel, took = f"kernel_{chosen.randrange(400)}", chosen.randrange(10**4, 10**6)
            step.launch(op, kernel, took, gaps=gaps)
            gradient = step.op(op, f"{name}Backward0", backward=True)
            step.launch(gradient, f"grad_{chosen.randrange(400)}", 1e5, backward=True)
        step.wait(step.op(module, "aten::item"), 1e4)
        step.copy(step.op(module, "aten::to"), "HtoD pageable", 1e4, 1e6)
    return step.profile()
