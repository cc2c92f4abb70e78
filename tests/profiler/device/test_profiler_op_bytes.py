"""Which nodes of a profile keep estimated bytes of operations, and what kernels get of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.profiler_programs import run, tree
from tileprof.analyzer.program.work_of_ops import WorkOfOps

pytest.importorskip("tileprof.native._recorder")


def test_only_operations_that_launch_keep_their_bytes(names: dict[str, Any]) -> None:
    """Not those that call others or make views; a backward node has its operation's per visit."""
    profile = run(
        """
        def add(sequence, moves):
            def inner():
                kernel("first", 1000, 1100)
                kernel("second", 1100, 1400)
            op("aten::add", inner, sequence, moves=moves)
        def outer():
            for sequence, moves in enumerate((None, 400, None)):
                add(sequence, moves)
            op("aten::view", 0, moves=800)
        op("aten::layer", outer, moves=9000)
        for sequence in range(2):
            backward("AddBackward0", sequence, lambda: kernel("third", 2000, 2100))
        deliver()
        """,
        native=True,
        names=names,
    )
    assert profile.whole["op_bytes"] == 3 * 400 + 2 * 400
    assert {
        profile.names[node]: float(value)
        for node, value in enumerate(profile.own["op_bytes"])
        if value
    } == {"aten::add": 1200, "AddBackward0": 800}
    work = WorkOfOps(profile)
    (first,), (second,), (third,) = (profile.find(each) for each in ("first", "second", "third"))
    assert [work.bytes[each] for each in (first, second, third)] == [300, 900, 800]
    assert work.estimated.nonzero()[0].tolist() == sorted([first, second, third])
    assert not work.flops.any()


def test_gradients_that_read_another_tensor(names: dict[str, Any]) -> None:
    """Of a norm the gradient reads two tensors and writes one: half as much again."""
    profile = run(
        """
        op("aten::native_batch_norm", lambda: kernel("norm", 1000, 1100), 0, moves=400)
        backward("NativeBatchNormBackward0", 0, lambda: kernel("gradient", 2000, 2100))
        deliver()
        """,
        native=True,
        names=names,
    )
    (gradient,) = profile.find("gradient")
    assert WorkOfOps(profile).bytes[gradient] == 600


def test_visits_before_the_first_sample_are_made_up_for(names: dict[str, Any]) -> None:
    """A sample stands for the visits since the one before; those after the last, for its mean."""
    profile = run(
        """
        def work(moves):
            op("aten::add", lambda: kernel("add", 1000, 1100), moves=moves)
        for moves in (None, None, 300, None, 100, None):
            work(moves)
        deliver()
        """,
        native=True,
        names=names,
    )
    assert profile.whole["op_bytes"] == pytest.approx(6 * (3 * 300 + 2 * 100) / 5)


def test_operations_that_launch_nothing_show_no_bytes(names: dict[str, Any]) -> None:
    """On the host alone nothing is known of what kernels move."""
    profile = run("op('aten::add', 5, moves=100)", native=True, names=names)
    assert "aten::add" in tree(profile)
    assert "op_bytes" not in profile.metrics or not profile.whole["op_bytes"]
