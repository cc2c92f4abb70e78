"""Programs with operations that the native recorder sees, beside the whole tree that they give."""

from __future__ import annotations

import pytest

from tests.profiler_programs import expect, run, tree
from tileprof.profile import FOLDED_NAME

pytest.importorskip("tileprof.native._recorder")


def test_operations_hang_where_they_were_called() -> None:
    """Below the frames that led to them, below scopes, below each other."""
    profile = run(
        """
        def python_op():
            op("aten::mul", 3)
            with scope("in op"):
                op("aten::add", 4)
                spend(2)
        def layer():
            op("aten::linear", python_op)
            spend(1)
        with scope("step"):
            layer()
            layer()
        op("aten::sum", 5)
        """,
        native=True,
    )
    assert tree(profile, "count", "cpu_time") == expect("""
        frame <module>:9
          scope step count=1 cpu_time=2
            frame layer:7
              op aten::linear count=2
                frame python_op:3
                  scope in op count=2 cpu_time=4
                    op aten::add count=2 cpu_time=8
                frame python_op:2
                  op aten::mul count=2 cpu_time=6
        frame <module>:12
          op aten::sum count=1 cpu_time=5
    """)


def test_backward_hangs_under_the_forward_operation() -> None:
    """By the sequence number, on any thread; gradients of none at the call for them."""
    profile = run(
        """
        import threading
        def forward(name, sequence):
            op(name, 2, sequence)
        def train():
            forward("aten::linear", 7)
            forward("aten::relu", 8)
            native.around_backward(str, 0, 0)()
            def engine():
                backward("ReluBackward0", 8, 3)
                backward("LinearBackward0", 7, lambda: op("aten::mm", 4))
                backward("AccumulateGrad", -1, 1)
            thread = threading.Thread(target=engine)
            thread.start()
            thread.join()
        with scope("step 1"):
            train()
        with scope("step 2"):
            train()
        """,
        native=True,
    )
    step = """
          scope step {} cpu_time=8
            frame train:5
              frame forward:3
                op aten::linear cpu_time=2
                  op LinearBackward0
                    frame train.<locals>.engine.<locals>.<lambda>:10
                      op aten::mm cpu_time=4
            frame train:6
              frame forward:3
                op aten::relu cpu_time=2
                  op ReluBackward0 cpu_time=3
    """
    first, second = (expect(step).replace("{}", str(n)).replace("\n", "\n  ") for n in (1, 2))
    assert tree(profile, "cpu_time") == "\n".join(
        (
            f"frame <module>:15\n  {first}",
            f"frame <module>:17\n  {second}",
            "frame train.<locals>.engine:11\n  op AccumulateGrad cpu_time=2",
        )
    )
    phases = dict(zip(profile.names, profile.phases))
    named = ("aten::linear", "LinearBackward0", "aten::mm")
    assert [phases[name] for name in named] == ["", "backward", "backward"]


def test_strange_stacks() -> None:
    """Generators, decorators and coroutines give the paths that Python itself sees."""
    profile = run(
        """
        import asyncio
        def steps():
            yield 1
            op("in generator", 1)
            yield 2
        async def task(name):
            with scope(name):
                await asyncio.sleep(0)
                op("in task", 1)
        async def both():
            await asyncio.gather(task("a"), task("b"))
        @scope("decorated")
        def work():
            op("in function", 1)
        for _ in steps():
            op("in loop", 1)
        work()
        with scope("outer"):
            asyncio.run(both())
        """,
        native=True,
    )
    text = tree(profile, "count")
    beginning, _, task = text.partition("                frame task:7\n")
    assert beginning.startswith(
        expect("""
        frame <module>:17
          scope decorated count=1
            frame work:14
              op in function count=1
        frame <module>:18
          scope outer count=1
        """)
    )
    tasks, _, loops = task.partition("\nframe <module>:16\n")
    assert expect(tasks) == expect("""
          scope a count=1
            op in task count=1
          scope b count=1
            op in task count=1
    """)
    assert loops == expect("""
          op in loop count=2
        frame <module>:15
          frame steps:4
            op in generator count=1
    """)


def test_operations_of_a_copied_context() -> None:
    """They are in the scope of the thread that was copied from; its own time stays its own."""
    profile = run(
        """
        import contextvars, threading
        def work():
            op("a", 5)
            with scope("inner"):
                op("b", 7)
        with scope("request"):
            context = contextvars.copy_context()
            thread = threading.Thread(target=context.run, args=(work,))
            thread.start()
            thread.join()
        """,
        native=True,
        context="scopes",
    )
    assert tree(profile, "count", "cpu_time") == expect("""
        scope request count=1 cpu_time=12
          scope inner count=1
            op b count=1 cpu_time=7
          op a count=1 cpu_time=5
    """)


def test_deep_recursion() -> None:
    """Each of 200 calls of a function is a node of its own."""
    profile = run(
        """
        def down(n):
            if n:
                down(n - 1)
            else:
                op("deep", 1)
        down(199)
        down(199)
        """,
        native=True,
    )
    deep = profile.find("deep")
    assert [profile.depths[n] for n in deep] == [201, 201]
    assert profile.names.count("down") == 400


def test_scopes_only() -> None:
    """Without frames, operations hang below scopes and each other."""
    profile = run(
        """
        def call():
            op("b", 2)
        with scope("s"):
            op("a", call)
        op("b", 1)
        """,
        native=True,
        context="scopes",
    )
    assert tree(profile, "count", "cpu_time") == expect("""
        scope s count=1
          op a count=1
            op b count=1 cpu_time=2
        op b count=1 cpu_time=1
    """)


def test_operations_that_began_before_or_end_after() -> None:
    """What began before the recording is not in it; what is still open is counted when it ends."""
    profile = run(
        """
        early = native.enter_op("early", -1, 1)
        native.leave(early + 1000)
        op("whole", 3)
        late = native.enter_op("late", -1, 1)
        spend(4)
        """,
        native=True,
    )
    assert [profile.names[n] for n in range(len(profile))].count("whole") == 1
    assert "late" not in profile.names


def test_ranges_hold_the_frames_that_are_called_in_them() -> None:
    """A range that a function opens for its caller: what is called later hangs below the range."""
    profile = run(
        """
        def begin():
            native.push_range("r", "")
        def work():
            op("a", 3)
            with scope("s"):
                spend(4)
        def program():
            begin()
            work()
            spend(2)
            native.pop_range("")
            work()
        program()
        """,
        native=True,
    )
    assert tree(profile, "count", "cpu_time") == expect("""
        frame <module>:13
          frame program:8
            frame begin:2
              scope r count=1 cpu_time=2
                frame work:5
                  scope s count=1 cpu_time=4
                frame work:4
                  op a count=1 cpu_time=3
          frame program:12
            frame work:5
              scope s count=1 cpu_time=4
            frame work:4
              op a count=1 cpu_time=3
    """)


def test_ranges_that_never_repeat_fold() -> None:
    """Beyond a thousand in one place they share a node, and so does what is in them.

    In the recorder too, whose memory does not grow with them.
    """
    from tileprof.native import _recorder

    before = _recorder.context_count()
    profile = run(
        """
        def step(number):
            native.push_range(f"step {number}", "")
            op("aten::add", 2)
            native.pop_range("")
        for number in range(3_000):
            step(number)
        """,
        native=True,
    )
    assert _recorder.context_count() - before < 4_000
    (step,) = profile.find("step", "frame")
    ranges = [profile.node(each) for each in profile.children(step)]
    assert len(ranges) == 1_001
    assert ranges[-1].name == FOLDED_NAME
    assert ranges[-1].own("count") == 2_000
    assert ranges[-1].total("cpu_time") == 4_000
