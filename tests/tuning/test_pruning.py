"""Pruning of Triton's lists, by stored programs and resources: no Triton, no GPU.

`tests/tuning/store_triton_lists.py` stores them.
"""

from __future__ import annotations

import json
import logging
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tileprof
from tileprof.errors import ArgumentError
from tileprof.profiler.frameworks.triton_accesses import work_of
from tileprof.profiler.frameworks.triton_ir import Unknown, parse
from tileprof.remarks.pruning import (
    CannotRun,
    DataDecidesLoop,
    KeptForTiming,
    KeptUnranked,
    KernelNotCompiled,
    NotWorthTiming,
    ProgramNotUnderstood,
    SameCode,
    TooMuchShared,
    TunerNotKnown,
)
from tileprof.remarks.statement import Reason
from tileprof.tuning import machine_of
from tileprof.tuning.facts import LaunchFacts
from tileprof.tuning.machine import Gpu
from tileprof.tuning.model import estimate
from tileprof.tuning.pruning.configured import Configured, NotKnown, Resources
from tileprof.tuning.pruning.everywhere import PrunedEverywhere
from tileprof.tuning.pruning.facts import facts_of
from tileprof.tuning.pruning.pruner import TritonPruner, name_of
from tileprof.tuning.pruning.ranking import Ranked, kept_of, ranked
from tileprof.tuning.pruning.traffic import traffic_of

LISTS = Path(__file__).parents[1] / "data" / "triton_lists"
PROGRAMS = Path(__file__).parents[1] / "data" / "triton"


@dataclass
class Stored:
    """A list with its programs and resources."""

    names: list[str]
    values: list[dict[str, float]]
    given: dict[int, Configured]
    held: dict[int, Resources]
    compiled: list[int]
    """Positions whose machine code was asked for."""

    def compile(self, wanted: Sequence[int]) -> list[Resources | Reason | NotKnown]:
        self.compiled += wanted
        return [self.held[at] for at in wanted]

    def ranked(self, keep: int | None = None, *, compiles: bool = True) -> dict[str, Ranked]:
        self.compiled.clear()
        made = ranked(
            self.names, self.values, self.given, {}, {}, MACHINE,
            self.compile if compiles else None, keep,
        )  # fmt: skip
        return {each.name: each for each in made}

    def chosen(self, *at: int) -> Stored:
        """The list with these alone."""
        return Stored(
            [self.names[n] for n in at], [self.values[n] for n in at],
            {to: self.given[n] for to, n in enumerate(at)},
            {to: self.held[n] for to, n in enumerate(at)}, [],
        )  # fmt: skip


def stored(name: str) -> Stored:
    """Return a stored list."""
    data = json.loads((LISTS / f"{name}.json").read_text())
    works = [work_of(parse(text), steps=True) for text in data["texts"]]
    made = Stored([], [], {}, {}, [])
    for at, row in enumerate(data["configurations"]):
        made.names.append(row["name"])
        made.values.append(row["values"])
        made.given[at] = Configured(
            works[row["text"]], tuple(row["grid"]), dict(row["arguments"]), dict(row["sizes"]),
            row["warps"], row["stages"], alike=row["alike"],
        )  # fmt: skip
        made.held[at] = Resources(**row["resources"])
    return made


def _machine() -> Gpu:
    found = machine_of("", "sm_90a")
    assert isinstance(found, Gpu)
    return found


MACHINE = _machine()
MATMUL, SOFTMAX, ATTENTION = stored("matmul"), stored("softmax"), stored("attention")


def launch_of(given: Configured, held: Resources | None = None, ratio: float = 1.0) -> LaunchFacts:
    """Return the facts of a configuration's launch."""
    (launch,) = facts_of(given, held, traffic_of(given, MACHINE.sms), ratio).launches
    return launch


def place(of: dict[str, Ranked], *starts: str) -> int:
    """Place of the first configuration whose name begins so."""
    return min(
        each.place for name, each in of.items() if name.startswith(starts) and each.place >= 0
    )


# -- facts


def test_product_of_4096_has_its_flops_and_its_tiles() -> None:
    """128 x 256 tiles: 512 blocks, 64 iterations, 48 KB of operands in each, by warp groups."""
    launch = launch_of(MATMUL.given[0], MATMUL.held[0])
    loop = max(launch.parts, key=lambda part: part.times)
    assert (launch.blocks, launch.threads, loop.times, loop.stages) == (512, 256, 64, 3)
    flops = sum(p.flops for each in launch.parts for p in each.products)
    assert sum(p.flops for p in loop.products) * loop.times * launch.blocks == 2 * 4096**3
    assert flops == 2 * 128 * 256 * 64
    assert {p.instruction for p in loop.products} == {"wgmma"}
    assert loop.loads == (128 * 64 + 64 * 256) * 2
    assert launch.written_bytes == 4096 * 4096 * 2
    assert launch.shared == 147456


def test_groups_of_rows_share_operands_within_a_wave() -> None:
    """A wave of 132 blocks in groups of 8 rows reads fewer tiles than all its blocks ask for."""
    launch = launch_of(MATMUL.given[0])
    read = dict(launch.memory_bytes)[132]
    asked = sum(part.loads * part.times for part in launch.parts) * launch.blocks
    least = 2 * 4096 * 4096 * 2
    # 132 blocks are 8 rows of 16.5 columns: 8 + 17 of the tiles that 132 + 132 ask for.
    assert least < read < asked / 4


def test_masks_and_second_operands_of_attention_are_counted() -> None:
    """Causal: 32 blocks of rows, the first of which has 2 iterations of 64, the last one 64."""
    at = next(n for n, name in enumerate(ATTENTION.names) if "BN=64" in name)
    launch = launch_of(ATTENTION.given[at])
    loop = max(launch.parts, key=lambda part: part.times)
    assert loop.times == (2 + 64) / 2
    assert [p.flops for p in loop.products] == [2 * 128 * 64 * 64] * 2
    assert loop.special >= 128 * 64
    assert loop.reductions >= 2


def test_registers_are_those_of_the_machine_code_where_there_is_one() -> None:
    """Before, they are an estimate, which other configurations correct."""
    before = launch_of(MATMUL.given[0])
    after = launch_of(MATMUL.given[0], MATMUL.held[0])
    assert before.binary is None
    assert before.registers < after.registers == 220
    assert launch_of(MATMUL.given[0], None, 2.0).registers > before.registers


@pytest.mark.parametrize("name", [path.stem for path in sorted(PROGRAMS.glob("*.ttir"))])
def test_steps_change_nothing_of_what_is_accessed(name: str) -> None:
    """The recorder's view of a kernel is the same with and without steps."""
    functions = parse((PROGRAMS / f"{name}.ttir").read_text())
    try:
        plain = work_of(functions)
    except Exception as error:
        with pytest.raises(type(error)):
            work_of(functions, steps=True)
        return
    more = work_of(functions, steps=True)
    assert [each.bytes for each in more.accesses] == [each.bytes for each in plain.accesses]
    assert [each.flops for each in more.products] == [each.flops for each in plain.products]
    assert not plain.steps
    if plain.accesses:
        assert {e.argument for e in more.steps if e.argument >= 0} == {
            e.argument for e in plain.accesses
        }


@pytest.mark.parametrize("name", [path.stem for path in sorted(PROGRAMS.glob("*.ttir"))])
def test_facts_of_kernels_of_all_kinds(name: str) -> None:
    """Each kernel that the recorder understands has facts: what it accesses, in bytes as there."""
    try:
        work = work_of(parse((PROGRAMS / f"{name}.ttir").read_text()), steps=True)
    except Unknown:
        assert name in ("chosen", "pointers")
        return
    kinds = dict(enumerate(work.arguments))
    numbers = {at: 1024 for at, kind in kinds.items() if kind.startswith("i")}
    sizes = {at: 1 << 22 for at in kinds if at not in numbers}
    given = Configured(work, (64, 1, 1), numbers, sizes, 4, 3)
    launch = launch_of(given)
    flops = sum(p.flops * part.times for part in launch.parts for p in part.products)
    assert (flops > 0) == bool(work.products)
    assert (launch.written_bytes > 0) == any(each.stores for each in work.accesses)
    (read, *_) = (each for _, each in launch.memory_bytes)
    assert (read > 0) == any(each.loads for each in work.accesses)
    assert 0 < estimate(facts_of(given, None, traffic_of(given, 132)), MACHINE).ns < 1e6


def test_loop_that_data_decides_is_not_known() -> None:
    """A loop without a known number of iterations has no facts."""
    work = work_of(parse((PROGRAMS / "persistent.ttir").read_text()), steps=True)
    looped = replace(
        work,
        steps=tuple(replace(each, around=((1, None), *each.around)) for each in work.steps),
    )
    with pytest.raises(NotKnown) as caught:
        launch_of(Configured(looped, (132, 1, 1), {}, {}, 4, 3))
    assert caught.value.reason == DataDecidesLoop()


# -- ranks


def test_large_tiles_win_a_large_product() -> None:
    """128 x 128 with two warp groups is before 64 x 64, and before tiles without wgmma."""
    found = MATMUL.ranked()
    assert place(found, "BM=128 BN=128 BK=64 GROUP=8 num_warps=8") < 2
    assert place(found, "BM=128 BN=256") < place(found, "BM=64 BN=64") < place(found, "BM=32")
    assert sum(each.kept for each in found.values()) == kept_of(11) == 2
    assert all(isinstance(e.decision, KeptForTiming) == e.kept for e in found.values())
    worst = found["BM=32 BN=64 BK=32 GROUP=8 num_warps=2 num_stages=5"].decision
    assert isinstance(worst, NotWorthTiming)
    assert worst.ratio > 2


def test_small_tiles_win_a_small_product() -> None:
    """256 x 256 x 4096 has 2 tiles of 128 x 256, but 16 of 64 x 64, for 132 multiprocessors."""
    numbers = {3: 256, 4: 256, 5: 4096}
    sizes = {0: 256 * 4096 * 2, 1: 256 * 4096 * 2, 2: 256 * 256 * 2}
    small = replace(MATMUL, given={
        at: replace(each, arguments={**each.arguments, **numbers}, sizes=sizes,
                    grid=(each.blocks * 256 * 256 // 4096**2, 1, 1))
        for at, each in MATMUL.given.items()
    })  # fmt: skip
    found = small.ranked()
    assert (
        place(found, "BM=64 BN=64") < place(found, "BM=128 BN=128") < place(found, "BM=128 BN=256")
    )


def test_machine_code_is_made_of_the_best_alone() -> None:
    """Twice as many as are kept are compiled at most; none where that is not wanted."""
    found = MATMUL.ranked(keep=2)
    kept = {at for at, name in enumerate(MATMUL.names) if found[name].kept}
    assert kept <= set(MATMUL.compiled)
    assert len(MATMUL.compiled) <= 4
    MATMUL.ranked(keep=2, compiles=False)
    assert MATMUL.compiled == []


def test_equal_programs_are_timed_once() -> None:
    """Stages change nothing of a kernel without a loop of products."""
    found = SOFTMAX.ranked(keep=8)
    assert sum(each.kept for each in found.values()) == 4
    same = found["ROWS=1 num_warps=2 num_stages=3"].decision
    assert same == SameCode(other="ROWS=1 num_warps=2 num_stages=2")


def test_equal_machine_code_is_timed_once() -> None:
    """Also where the programs differ."""
    one = replace(SOFTMAX.chosen(0, 2))
    one.given = {at: replace(each, alike="") for at, each in one.given.items()}
    decisions = [each.decision for each in one.ranked(keep=2).values()]
    assert [type(each) for each in decisions] == [KeptForTiming, SameCode]


def test_what_the_model_does_not_tell_apart_is_kept_far_apart() -> None:
    """All softmax configurations take the time of memory: one row by few warps, two by many."""
    kept = [name for name, each in SOFTMAX.ranked(keep=2).items() if each.kept]
    assert len({name.split()[0] for name in kept}) == 2
    assert len({name.split()[1] for name in kept}) == 2


def test_too_much_shared_memory_and_spills_are_learned() -> None:
    """What needs too much is left out; what spills is behind what does not."""
    every = MATMUL.ranked(keep=11)
    order = sorted(range(11), key=lambda at: every[MATMUL.names[at]].place)
    first, second = order[0], order[1]
    changed = MATMUL.chosen(*range(11))
    changed.held[first] = replace(changed.held[first], shared=300_000, code="a")
    changed.held[second] = replace(changed.held[second], spilled=512, registers=255, code="b")
    found = changed.ranked(keep=3)
    decision = found[MATMUL.names[first]].decision
    assert isinstance(decision, CannotRun)
    assert isinstance(decision.why, TooMuchShared)
    assert decision.why.needed == 300_000
    assert not found[MATMUL.names[second]].kept
    assert sum(each.kept for each in found.values()) == 3


def test_configurations_that_are_not_understood_are_kept() -> None:
    """They are kept beside the others."""
    reason = ProgramNotUnderstood(what="scf.execute_region")
    given = {at: each for at, each in MATMUL.given.items() if at != 5}
    found = ranked(MATMUL.names, MATMUL.values, given, {}, {5: reason}, MACHINE, None, 2)
    assert found[5].kept
    assert found[5].decision == KeptUnranked(why=reason)
    assert sum(each.kept for each in found) == 3


def test_configuration_whose_compilation_fails_is_kept() -> None:
    """Triton's own error comes from the tuner; others are ranked without it."""
    reason = KernelNotCompiled(message="PassManager::run failed")
    first = next(at for at, name in enumerate(MATMUL.names) if MATMUL.ranked()[name].place == 0)
    found = ranked(
        MATMUL.names, MATMUL.values, MATMUL.given, {}, {}, MACHINE,
        lambda wanted: [NotKnown(reason) if at == first else MATMUL.held[at] for at in wanted], 2,
    )  # fmt: skip
    assert found[first].decision == KeptUnranked(why=reason)
    assert sum(each.kept for each in found) == 3


@given(st.randoms(use_true_random=False), st.integers(1, 6))
def test_every_configuration_has_one_decision(chance: random.Random, keep: int) -> None:
    """Whatever part of a list in whatever order: as many are kept as asked for, each named once,
    and the best of the order is no slower by the model than any that is left out."""
    at = chance.sample(range(11), chance.randint(2, 11))
    part = MATMUL.chosen(*at)
    found = part.ranked(keep)
    assert list(found) == part.names
    kept = [each for each in found.values() if each.kept]
    assert len(kept) == min(keep, len(part.names))
    best = min(each.model.ns for each in found.values() if each.model)
    first = next(each for each in kept if each.place == 0)
    assert first.model is not None
    assert first.model.ns == best


# -- autotuners


def test_names_leave_out_what_is_left_to_triton() -> None:
    """One block of a cluster is what Triton does anyway."""
    assert name_of(Config({"BLOCK": 64}, 8)) == "BLOCK=64 num_warps=8 num_stages=3"


class Config:
    """A `triton.Config`."""

    pre_hook = None

    def __init__(self, kwargs: dict[str, int], warps: int = 4) -> None:
        self.kwargs, self.num_warps = kwargs, warps

    def all_kwargs(self) -> dict[str, Any]:
        return {**self.kwargs, "num_warps": self.num_warps, "num_ctas": 1, "num_stages": 3}


class Tuner:
    """An `Autotuner` of Triton, as far as its configurations are pruned."""

    def __init__(self, prune: Any = None) -> None:
        self.configs = [Config({"BLOCK": 64 << at}) for at in range(4)]
        self.early_config_prune = prune
        self.fn, self.nargs = SimpleNamespace(__name__="scale"), {"x": 1}

    def prune_configs(self, keywords: dict[str, Any]) -> list[Config]:
        if self.early_config_prune:
            found: list[Config] = self.early_config_prune(self.configs, self.nargs, **keywords)
            return found
        return self.configs


def test_all_are_kept_with_a_reason_where_triton_has_no_device(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A warning says why, once for a kernel and a reason."""
    tuner: Tuner = tileprof.triton_pruner()(Tuner())
    with caplog.at_level(logging.WARNING, "tileprof"):
        assert tuner.prune_configs({"grid": (1,)}) == tuner.configs
        assert tuner.prune_configs({"grid": (1,)}) == tuner.configs
    (outcome, _) = tuner.early_config_prune.pruner.outcomes
    assert outcome.why_all is not None
    assert outcome.why_all.code() == "other-triton"
    assert [record.getMessage() for record in caplog.records] == [f"triton_pruner: {outcome}"]
    assert str(outcome).startswith("scale: all 4 configurations are kept: this version of Triton")


def test_pruner_among_the_tuners_arguments_finds_its_kernel() -> None:
    """Triton hands over arguments alone; the kernel is the calling tuner's."""
    pruner = tileprof.triton_pruner()
    tuner = Tuner(pruner)
    tuner.prune_configs({"grid": (1,)})
    assert pruner.outcomes[0].kernel == "scale"


def test_pruner_that_is_called_by_somebody_else_keeps_everything() -> None:
    """Without a kernel there is nothing to rank."""
    pruner = tileprof.triton_pruner()
    configs = Tuner().configs
    assert pruner(configs, {"x": 1}, grid=(1,)) == configs
    assert pruner.outcomes[0].why_all == TunerNotKnown()


def test_authors_own_pruning_comes_first() -> None:
    """What the author drops is not kept."""
    tuner: Tuner = tileprof.triton_pruner()(Tuner(lambda configs, named, **_: configs[1:]))
    assert tuner.prune_configs({"grid": (1,)}) == tuner.configs[1:]


@pytest.mark.parametrize("keep", [0, -1, True, 2.5])
def test_keep_is_a_whole_number(keep: Any) -> None:
    """Nothing else is taken for one."""
    with pytest.raises(ArgumentError, match="not a whole number above 0"):
        tileprof.triton_pruner(keep)


def test_other_objects_are_no_autotuner() -> None:
    """The error says where the decorator stands."""
    with pytest.raises(ArgumentError, match=r"is not an autotuner of Triton[\s\S]*above @triton"):
        tileprof.triton_pruner()(SimpleNamespace())


def test_every_autotuner_of_a_process_is_pruned_until_it_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those with a pruner of their own are left to it."""
    module = ModuleType("triton.runtime.autotuner")
    own = type("Autotuner", (Tuner,), {"prune_configs": Tuner.prune_configs})
    vars(module)["Autotuner"] = own
    for name in ("triton", "triton.runtime"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    everywhere = PrunedEverywhere()
    assert everywhere.sentence == ""
    own().prune_configs({})
    assert len(everywhere.pruner.outcomes) == 1
    TritonPruner()(own()).prune_configs({})
    assert len(everywhere.pruner.outcomes) == 1
    assert everywhere.sentence == (
        "pruned a list of Triton's autotuner: 4 of 4 configurations are timed"
    )
    everywhere.stop()
    own().prune_configs({})
    assert len(everywhere.pruner.outcomes) == 1
    assert vars(own)["prune_configs"] is Tuner.prune_configs
