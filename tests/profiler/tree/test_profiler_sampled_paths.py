"""Paths of samples, and the latest looks at the main thread: what they keep."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from tileprof.profiler.tree.path_cache import line_at
from tileprof.profiler.tree.paths import Paths
from tileprof.profiler.tree.sampled_nodes import Trail
from tileprof.profiler.tree.tree import Node, Tree


def test_samples_of_one_line_share_what_was_learned() -> None:
    """Wherever in it they fall, they have one node and one chain of callers."""
    tree = Tree()
    paths, root = Paths(tree), tree.root
    seen, nodes = set[int](), set[int]()

    def look(frame: FrameType, event: str, value: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen.add(frame.f_lasti)
            nodes.add(paths.find_sampled(frame, root, None).index)
        return look

    def work() -> int:
        return sum([1, 2, 3]) + max(4, 5) * min(6, 7) - abs(8) + len([9])

    before = sys.gettrace()
    sys.settrace(look)
    try:
        work()
    finally:
        sys.settrace(before)
    assert len(seen) > 20
    assert len(nodes) == 1
    (anchor,) = root.cache.samples.values()
    assert anchor.code is work.__code__
    assert not anchor.others


def test_a_sample_at_an_instruction_without_a_line_is_at_the_line_before_it() -> None:
    """The jump that ends a loop's body after an `if` has none; the line of `def` is no answer."""
    source = "def odd(numbers):\n    for x in numbers:\n        if x % 2:\n            yield x\n"
    namespace: dict[str, Any] = {}
    exec(compile(source, "odd.py", "exec"), namespace)
    code = namespace["odd"].__code__
    tree = Tree()
    paths, lines, without = Paths(tree), set[int](), 0

    def look(frame: FrameType, event: str, value: Any) -> Any:
        nonlocal without
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_code is code and started:
            without += frame.f_lineno is None
            place = paths.find_sampled(frame, tree.root, None).location
            assert place is not None
            lines.add(place.line)
        return look

    started, made = False, namespace["odd"](range(8))
    assert next(made) == 1
    started, before = True, sys.gettrace()
    sys.settrace(look)
    made.gi_frame.f_trace = look
    made.gi_frame.f_trace_opcodes = True
    try:
        assert list(made) == [3, 5, 7]
    finally:
        sys.settrace(before)
    assert lines == {2, 3, 4}
    assert without or sys.version_info >= (3, 12)
    assert line_at(code, 0) == 1


def test_a_sample_in_the_frame_of_a_scope_is_the_scopes() -> None:
    """There is no path to follow; one in a function that it calls has the node of that."""
    tree = Tree()
    paths, stop = Paths(tree), sys._getframe()
    scope = tree.child(tree.root, "scope", "s", None)

    def inner() -> Node:
        return paths.find_sampled(sys._getframe(), scope, stop)

    assert paths.find_sampled(stop, scope, stop) is scope
    first = inner()
    assert inner().parent is first.parent is scope
    assert first.name == inner.__qualname__


def test_looks_take_few_bytes_and_the_newest_stay() -> None:
    """Two numbers for each, where a pair of objects was; of many more than are kept, the last."""
    tree, trail = Tree(), Trail()
    node = tree.root
    trail.add(-1, node)
    before = sys.getallocatedblocks()
    for now in range(10_000):
        trail.add(now << 40, node)
    assert sys.getallocatedblocks() - before < 1_000
    assert len(trail.between(5 << 40, 9 << 40)) == 5
    for now in range(10_000, 300_000):
        trail.add(now << 40, node)
    assert trail.between(0, 1 << 40) == []
    assert len(trail.between(299_000 << 40, 300_000 << 40)) == 1_000
