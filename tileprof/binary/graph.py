"""Dominators and natural loops of a directed graph, nodes numbered from 0 with the root first.

In: the successors of each node.  Out: immediate dominators, and loops by header.  Dominators by the
iteration of Cooper, Harvey and Kennedy ("A Simple, Fast Dominance Algorithm").  A loop that is
entered at several nodes (irreducible) has no dominating header and is not found.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import limits

Edges = Sequence[Sequence[int]]


def predecessors(successors: Edges) -> list[list[int]]:
    """Return the nodes before each node."""
    found: list[list[int]] = [[] for _ in successors]
    for node, after in enumerate(successors):
        for each in dict.fromkeys(after):
            found[each].append(node)
    return found


def reverse_postorder(successors: Edges) -> list[int]:
    """Return the nodes that the root reaches, each before its successors but for back edges."""
    seen, order = {0}, []
    stack = [(0, iter(successors[0]))]
    while stack:
        node, rest = stack[-1]
        for each in rest:
            if each not in seen:
                seen.add(each)
                stack.append((each, iter(successors[each])))
                break
        else:
            order.append(node)
            stack.pop()
    return order[::-1]


def immediate_dominators(successors: Edges) -> list[int | None]:
    """Return the closest node that every path from the root to a node goes through.

    The root's is itself; None for a node that the root does not reach.
    """
    order = reverse_postorder(successors)
    position = {node: i for i, node in enumerate(order)}
    before = predecessors(successors)
    found: list[int | None] = [None] * len(successors)
    found[0] = 0
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            known = [each for each in before[node] if found[each] is not None]
            best = known[0]
            for each in known[1:]:
                best = _common(best, each, found, position)
            if found[node] != best:
                found[node], changed = best, True
    return found


def _common(a: int, b: int, found: list[int | None], position: dict[int, int]) -> int:
    """Return the closest dominator of two nodes, climbing from the deeper one."""
    while a != b:
        deeper, other = (a, b) if position[a] > position[b] else (b, a)
        above = found[deeper]
        assert above is not None
        a, b = above, other
    return a


def dominates(above: int, node: int, immediate: Sequence[int | None]) -> bool:
    """Return whether every path from the root to `node` goes through `above`."""
    while node != above:
        parent = immediate[node]
        if parent is None or parent == node:
            return False
        node = parent
    return True


def natural_loops(successors: Edges) -> dict[int, frozenset[int]]:
    """Return the nodes of each loop, keyed by header; loops that share a header are one."""
    immediate = immediate_dominators(successors)
    before = predecessors(successors)
    found: dict[int, set[int]] = {}
    left = limits.MOST_LOOP_BLOCKS
    for node, after in enumerate(successors):
        for header in after:
            if immediate[node] is not None and dominates(header, node, immediate):
                body = found.setdefault(header, {header})
                left += len(body)
                _collect(node, body, before, immediate)
                left -= len(body)
                if left < 0:
                    raise limits.too_much("a function has loops within each other without end")
    return {header: frozenset(body) for header, body in found.items()}


def _collect(
    last: int, body: set[int], before: list[list[int]], immediate: Sequence[int | None]
) -> None:
    """Add the nodes that reach `last` without passing the header."""
    stack = [last]
    while stack:
        node = stack.pop()
        if node not in body and immediate[node] is not None:
            body.add(node)
            stack += before[node]
