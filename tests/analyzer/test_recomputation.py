"""Forward passes that checkpoints run again in the backward pass."""

from __future__ import annotations

import pytest

from tests.analyzer.made import found, only
from tests.analyzer.steps import FILE, LATE, MS, TORCH, Step
from tileprof.analyzer.fixes import NO_CHECKPOINTS
from tileprof.profile import Metric, Profile
from tileprof.profile.training_facts import HOST, MemoryRoom, training_provenance

CHECKPOINT = f"{TORCH}utils/checkpoint.py"
NEWER = "_checkpoint_without_reentrant_generator.<locals>.recompute_fn"
OLDER = "CheckpointFunction.backward"


def step_of(again: float, function: str = NEWER, gradients: float = 0, late: float = 0) -> Step:
    """A step of 100 ms of work, of which so many run again, in ms; `gradients` are within that."""
    step = Step()
    product = step.op(step.frame(step.top, "forward", 40), "aten::mm")
    step.launch(product, "gemm", (100 - again - gradients) * MS)
    gradient = step.op(product, "MmBackward0", backward=True)
    frame = step.frame(gradient, function, 1607, CHECKPOINT)
    layer = step.op(step.frame(frame, "forward", 52), "aten::gelu")
    step.launch(layer, "gelu", again * MS, gaps={LATE: late * MS} if late else None)
    if gradients:
        inner = step.op(layer, "GeluBackward0", backward=True)
        step.launch(inner, "gelu_backward", gradients * MS, backward=True)
    return step


@pytest.mark.parametrize("function", [NEWER, OLDER])
def test_all_that_runs_again_goes(function: str) -> None:
    """20 of 100 ms, half of it at least, with the line of the user's that is run again."""
    finding = only(step_of(20, function).profile(), "recomputation")
    gain, place = finding.program_gain, finding.place.location
    assert gain is not None
    assert place is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx((1 / 0.9, 1 / 0.8, 1 / 0.8))
    assert place.line == 52
    assert finding.evidence[0].text == (
        "20 kernels and copies of forward passes run in backward passes: 400 ms, 20.0 % of the"
        " devices' time"
    )


def test_gradients_inside_an_older_checkpoint_stay() -> None:
    """They are needed with and without it."""
    finding = only(step_of(20, OLDER, gradients=30).profile(), "recomputation")
    gain = finding.program_gain
    assert gain is not None
    assert gain.mid == pytest.approx(1 / 0.8)


def test_the_host_does_not_launch_it_either() -> None:
    """Gaps before its launches go too, and its work is none that a late launch waits for."""
    finding = only(step_of(20, late=50).profile(), "recomputation")
    gain = finding.program_gain
    assert gain is not None
    assert gain.mid > 1 / (1 - 20 / 150)
    assert gain.high >= (100 + 50) / 80 * 0.99
    assert "another 33.3 % is lost in gaps before them" in [e.text for e in finding.evidence]


@pytest.mark.parametrize(
    ("again", "function"), [(0.5, NEWER), (20, "checkpoint"), (20, "unpack_hook")]
)
def test_other_calls_of_a_checkpoint_are_no_cause(again: float, function: str) -> None:
    """A second run that takes hardly any time is not reported, nor is the first forward pass."""
    assert not found(step_of(again, function).profile(), "recomputation")


LOOP = "\n" * 160 + "for step in data:\n    loss.backward()\n    optimizer.step()\n"
"""Text of the program, with the loop around line 161 that its steps are of."""


def remembered(left: int, moved: float = 8e9, peak: int = 50) -> Profile:
    """A step of 100 ms of which 20 run again and move so many bytes, on a device of which so many
    GB were never taken."""
    step = step_of(20)
    step.builder.declare(Metric("op_bytes", "bytes"))
    (layer,) = (at for at in range(len(step.profile())) if step.profile().names[at] == "aten::gelu")
    step.builder.add(layer, "op_bytes", 20 * moved)
    loop = step.frame(-1, "train", 162)
    optimizer = step.scope(step.frame(loop, "step", 9, FILE), "Optimizer.step#SGD.step")
    step.launch(step.op(optimizer, "aten::_foreach_add_"), "multi_tensor_apply", 0.001 * MS)
    gb = 10**9
    rooms = [MemoryRoom("cuda:0", peak * gb, (peak + left) * gb), MemoryRoom(HOST, 1, 10**12)]
    return step.profile(provenance=training_provenance(rooms, ()), sources={FILE: LOOP})


def test_memory_that_has_room_makes_it_sure() -> None:
    """Nine tenths at least, with what would be kept."""
    finding = only(remembered(30), "recomputation")
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid) == pytest.approx((1 / 0.82, 1 / 0.8), rel=1e-3)
    assert finding.confidence == "high"
    assert finding.fixes == (NO_CHECKPOINTS,)
    assert finding.evidence[-1].text == (
        "30 GB of 80 GB of memory of cuda:0 were never taken; keeping the results takes 8 GB per "
        "step"
        " at most"
    )


def test_memory_that_has_room_for_a_part() -> None:
    """2 GB of 8 at most, and of 3.2 that are likely."""
    gain = only(remembered(2), "recomputation").program_gain
    assert gain is not None
    low, mid = (1 / (1 - 0.2 * part) for part in (0.25, 2 / 3.2))
    assert (gain.low, gain.mid, gain.high) == pytest.approx((low, mid, 1 / 0.8), rel=1e-3)


@pytest.mark.parametrize(("left", "moved"), [(0, 8e9), (2, 60e9), (2, 0.0)])
def test_memory_that_is_full_needs_it(left: int, moved: float) -> None:
    """So does one of which nearly all was taken, where it is not known what would be kept."""
    finding = only(remembered(left, moved, peak=78), "recomputation")
    assert (finding.severity, finding.program_gain) == ("ignore", None)
    assert finding.title.endswith("because memory is full")
    assert finding.author.startswith("Leave it")


def by_hand(module: str = "Block.forward", name: str = "RecomputeBackward") -> Profile:
    """A gradient of the user's own that calls a module's forward pass of 20 ms of 100, and what
    else it does, of 10 ms; a gradient within that pass takes 30."""
    step = Step()
    block = step.frame(step.frame(step.top, "forward", 40), "Block.forward", 41)
    product = step.op(block, "aten::mm")
    step.launch(product, "gemm", 40 * MS)
    own = step.op(product, name, backward=True)
    inside = step.frame(step.frame(own, "Recompute.backward", 60), module, 41)
    again = step.op(inside, "aten::mm")
    step.launch(again, "gemm", 20 * MS, backward=True)
    step.launch(step.op(again, "MmBackward0", backward=True), "gemm", 30 * MS, backward=True)
    step.launch(step.op(own, "aten::mul"), "elementwise", 10 * MS, backward=True)
    return step.profile()


def test_a_gradient_that_runs_a_module_again() -> None:
    """Without a checkpoint of PyTorch's: 20 of 100 ms, and the module's name."""
    finding = only(by_hand(), "recomputation")
    assert finding.program_gain is not None
    assert finding.program_gain.mid == pytest.approx(1 / 0.8)
    assert finding.evidence[1].text == "recomputed: Block"


@pytest.mark.parametrize(
    "profile", [by_hand("Other.forward"), by_hand("helper"), by_hand(name="MmBackward1")],
    ids=["a module of its own", "a function", "a gradient of PyTorch's"],
)  # fmt: skip
def test_other_gradients_are_no_cause(profile: Profile) -> None:
    """What only a gradient calls did not run before."""
    assert not found(profile, "recomputation")


def test_on_a_host_a_checkpoint_costs_more_than_its_operations() -> None:
    """20 of 100 ms of its time run again: 1.4 times that goes likely, half of it at least."""
    step = Step()
    product = step.op(step.frame(step.top, "forward", 40), "aten::mm", cpu_time=80 * MS)
    gradient = step.op(product, "MmBackward0", backward=True)
    frame = step.frame(gradient, NEWER, 1607, CHECKPOINT)
    step.op(step.frame(frame, "forward", 52), "aten::gelu", cpu_time=20 * MS)
    gain = only(step.profile(), "recomputation").program_gain
    assert gain is not None
    expected = (1 / 0.9, 1 / (1 - 0.28), 1 / (1 - 0.36))
    assert (gain.low, gain.mid, gain.high) == pytest.approx(expected)
