"""Steps of programs without an optimizer: the user's long loops."""

from __future__ import annotations

import pytest

from tests.analyzer.made import found, only
from tests.analyzer.steps import FILE, LATE, Step
from tileprof.analyzer.program.steady import Steps
from tileprof.analyzer.program.user_loops import loops_around
from tileprof.profile import Profile

HOST = "waiting for the host"
SOURCE = """\
def main():
    model = build()
    inputs = batch()
    for step in range(60):
        ids = next(inputs)
        hidden = model(ids)
        for block in blocks:
            hidden = block(hidden)
    print(hidden)
"""
US = 1e3


class Inference(Step):
    """A loop at line 4 whose line 6 launches kernels of 1 ms 60 times, after a set-up."""

    def __init__(self) -> None:
        super().__init__(60)
        self.main = self.frame(-1, "<module>", 90)
        self.copy(self.line(2), "HtoD pageable", 900 * 1e6, 1e9, 6)
        self.idle(self.line(3), HOST, 500 * 1e6, 1)

    def line(self, number: int) -> int:
        """A line of `main`."""
        return self.frame(self.main, "main", number)

    def kernel(self, line: int, name: str, count: int = 60, us: float = 1e3) -> None:
        """Launches of an operation at a line, of so many µs each."""
        self.launch(self.op(self.line(line), name, count), name, us * US * count, count)

    def read(self) -> Profile:
        """The profile with the text of the program."""
        return self.profile(sources={FILE: SOURCE})


def test_set_up_before_a_long_loop_is_left_out() -> None:
    """900 ms of copies and 500 ms of the host's; each step has 1.5 ms of kernels, and 0.5 ms of a
    gap; what runs once or twice in it is a first use, or around a part that is timed."""
    step = Inference()
    step.kernel(6, "aten::mm")
    step.kernel(6, "aten::add", us=500)
    step.idle(step.line(6), LATE, 60 * 500 * US)
    step.idle(step.line(5), HOST, 70 * 1e6, 1)
    step.kernel(6, "warm_up", 1, us=9e4)
    step.kernel(9, "aten::mean", 1)
    steps = Steps(step.read())
    (loop,) = steps.users_loops
    assert (loop.iterations, loop.location.line) == (60, 4)
    assert steps.time == pytest.approx(60 * 2e6)


def test_gains_are_those_of_a_step() -> None:
    """Kernels take 1 ms of 4 ms, in 3.19 ms without a recording, and a tenth of what was recorded
    in all."""
    step = Inference()
    step.kernel(6, "aten::mm", 600, us=100)
    step.idle(step.line(6), LATE, 600 * 300 * US, 600)
    step.kernel(5, "aten::zeros", us=1)
    gain = only(step.read(), "launch-bound").program_gain
    assert gain is not None
    assert gain.mid == pytest.approx(3.19, rel=1e-2)


def test_a_wait_for_the_end_of_the_loop_is_no_wait_of_its_steps() -> None:
    """Two of 60 iterations wait for the device, to time what lies between; copies of weights left
    gaps before, and reading the result one after."""
    step = Inference()
    step.kernel(6, "aten::mm")
    step.wait(step.line(5), 50e6, 2)
    step.idle(step.line(3), "waiting for its launch after a host's copy", 60e6, 5)
    step.idle(step.line(9), "waiting for its launch after a host's wait", 60e6, 5)
    assert found(step.profile(), "transfers")  # a program whose text is not known
    assert not found(step.read(), "transfers")


def test_a_host_that_waits_at_the_end_of_the_loop_was_ahead() -> None:
    """It was ahead by 50 of 60 ms; a gap now and then does not make launches the limit."""
    step = Inference()
    step.kernel(6, "aten::mm")
    step.idle(step.line(6), LATE, 5e6)
    assert found(step.read(), "launch-bound")
    step.wait(step.line(5), 50e6, 2)
    assert not found(step.read(), "launch-bound")


@pytest.mark.parametrize(
    ("counts", "iterations"),
    [
        ((60, 720, 1440), 60),  # blocks of 12 layers
        ((120, 180, 180), 60),  # all operations are of layers
        ((60, 60, 60, 60, 7), 60),  # one that some iterations do
        ((61, 83, 97, 101), 0),  # others in each iteration
        ((12, 12, 24), 0),  # few
    ],
)
def test_iterations_are_a_divisor_of_nearly_all_counts(
    counts: tuple[int, ...], iterations: int
) -> None:
    """No recorder counts iterations, but operations are counted."""
    step = Inference()
    for number, count in enumerate(counts):
        step.kernel(6, f"aten::op_{number}", count)
    assert [each.iterations for each in Steps(step.read()).users_loops] == (
        [iterations] if iterations else []
    )


def test_layers_of_a_module_are_no_steps() -> None:
    """The loop at line 7 stands below a call of a module."""
    step = Inference()
    block = step.frame(step.frame(step.main, "Model.forward", 8), "block", 95)
    step.launch(step.op(block, "aten::mm", 24), "gemm", 24e6, 24)
    assert Steps(step.read()).users_loops == ()


def test_most_kernels_are_outside_of_the_loop() -> None:
    """Then what it does is no measure for the program."""
    step = Inference()
    step.kernel(6, "aten::mm")
    step.kernel(3, "solver", 90)
    assert Steps(step.read()).users_loops == ()


def test_loops_around_a_line_are_given_from_the_outermost() -> None:
    """Line 8 is in two, line 9 in none."""
    assert loops_around(SOURCE, 8) == ((4, 8), (7, 8))
    assert loops_around(SOURCE, 9) == ()
