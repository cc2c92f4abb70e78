"""Steps of programs that mark none and train nothing: long loops in the user's files.

An inference, a sampling or a simulation is a loop whose iterations do the same operations. No
recorder counts iterations, but operations are counted: in such a loop nearly all of them run a
multiple of some number of times, which is that of the iterations. A loop below the call of a
module is over its layers or time steps, and is in a step. First uses, and what runs before and
after a timed part of the loop, run once or twice.

In: a profile, how often its nodes ran.  Out: the outermost such loops, and their nodes.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from tileprof.analyzer.numbers.programs import STEADY_FEWEST, STEADY_MANY, STEADY_NEARLY_ALL
from tileprof.analyzer.program.calls import parsed
from tileprof.analyzer.program.masks import Column, Mask, below, inclusive, kind, outermost, where
from tileprof.errors import Location
from tileprof.profile import Profile
from tileprof.profile.transform.frames import is_module

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class UserLoop:
    """A loop whose iterations do the same."""

    iterations: int
    location: Location
    """Its first line."""
    inside: Mask = field(compare=False, repr=False)
    """Nodes of its iterations, without what ran once or twice in it."""
    around: Mask = field(compare=False, repr=False)
    """The same, with that."""


def long_loops(profile: Profile, count: Column) -> tuple[UserLoop, ...]:
    """Return the outermost loops of a program, by their source text; `count` is visits by node."""
    sources = profile.tables.sources
    if not sources:
        return ()
    ran = inclusive(profile, np.where(kind(profile, "kernel"), count, 0.0)) >= STEADY_MANY
    frames = kind(profile, "frame") & ~below(profile, where(profile, is_module))
    bodies = dict[tuple[int, str, tuple[int, int]], list[int]]()
    for node in np.flatnonzero(frames).tolist():
        place = profile.locations[node]
        if place is not None and place.file in sources:
            for span in loops_around(sources[place.file], place.line):
                key = int(profile.parents[node]), place.file, span
                bodies.setdefault(key, []).append(node)
    found, taken = list[UserLoop](), np.zeros(len(profile), bool)
    # Those of a function before those of functions that it calls, and outer ones before inner ones.
    order = sorted(bodies, key=lambda key: (profile.depths[bodies[key][0]], key[2][0], -key[2][1]))
    for key in order:
        if not ran[bodies[key]].any():
            continue
        body = np.zeros(len(profile), bool)
        body[bodies[key]] = True
        inside = below(profile, body)
        if (inside & taken).any():
            continue
        if iterations := _iterations(profile, count, inside):
            taken |= inside
            rare = outermost(profile, inside & (count > 0) & (count < STEADY_FEWEST))
            place = Location(key[1], key[2][0])
            steady = inside & ~below(profile, rare)
            found.append(UserLoop(iterations, place, steady, inside))
    return tuple(found)


def _iterations(profile: Profile, count: Column, inside: Mask) -> int:
    """Return the number of iterations of a loop with such nodes; 0 where they are few or differ.

    It is the least count of an operation of which nearly all counts are multiples: operations of
    layers, which a tree adds up, run several times in each iteration. If all of them are of such
    layers, it is the greatest divisor of two counts that is one of nearly all.
    """
    counted = inside & kind(profile, "op") & (count >= STEADY_FEWEST)
    if not counted.any():
        launches = np.zeros(len(profile), bool)
        launches[profile.parents[kind(profile, "kernel")]] = True
        counted = inside & launches & (count >= STEADY_FEWEST)
    counts = count[counted].astype(np.int64)
    different = np.unique(counts)
    divisors = np.unique(np.gcd.outer(different, different))
    for number in (*different.tolist(), *divisors[::-1].tolist()):
        if number >= STEADY_MANY and (
            (counts % number == 0).sum() >= STEADY_NEARLY_ALL * len(counts)
        ):
            return int(number)
    return 0


@lru_cache(maxsize=1024)
def loops_around(source: str, line: int) -> tuple[tuple[int, int], ...]:
    """Return the first and last lines of the loops around a line in its function, outermost first.

    Empty where there is none, or the text is no Python that this version reads.
    """
    tree = parsed(source)
    found = list[tuple[int, int]]()
    nodes: list[ast.AST] = [] if tree is None else [tree]
    while nodes:
        for child in ast.iter_child_nodes(nodes.pop()):
            first, last = getattr(child, "lineno", 0), getattr(child, "end_lineno", 0) or 0
            if first and not first <= line <= last:
                continue
            if isinstance(child, _FUNCTIONS) and first < last:
                found = []  # a loop around a definition does not run what is in it
            elif isinstance(child, ast.For | ast.AsyncFor | ast.While):
                end = max(each.end_lineno or 0 for each in child.body)
                # What is in the `else` of a loop is in loops around that one only.
                found += [(first, end)] if line <= end else []
            nodes.append(child)
    return tuple(found)
