"""Nodes of a program's tree: which they are, what is below what, and where they are in the source.

In: a program.  Out: masks, a truth value a node; ids, a node a node; places.  Nothing walks from a
node to its root but to name a place, so each question costs a pass over the nodes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.findings import Place
from tileprof.analyzer.program import masks
from tileprof.analyzer.program.masks import Ids, Mask
from tileprof.errors import Location
from tileprof.once import cached_property
from tileprof.profile import Symbol, is_installed, of_jax, runs_jax
from tileprof.profile.node_names import LOADER_SCOPE

_LOADER = re.compile(rf"{LOADER_SCOPE}_SingleProcessDataLoaderIter\.__next__")


class Nodes:
    """Questions about the nodes of a program's tree."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.profile = program.profile
        self.parents = self.profile.parents
        self.steps = program.steps

    # -- masks

    def where(self, wanted: Callable[[Symbol], bool]) -> Mask:
        """The nodes that are such; asked once for all that share a symbol."""
        return masks.where(self.profile, wanted)

    def kind(self, *kinds: str) -> Mask:
        """The nodes of these kinds."""
        return masks.kind(self.profile, *kinds)

    def of(self, nodes: Sequence[int]) -> Mask:
        """These nodes."""
        mask = np.zeros(len(self.parents), bool)
        mask[list(nodes)] = True
        return mask

    def _callers(self, nodes: Mask) -> Mask:
        """The nodes that these are right below."""
        above = self.parents[nodes]
        found = np.zeros(len(self.parents), bool)
        found[above[above >= 0]] = True
        return found

    def beside(self, nodes: Mask) -> Mask:
        """The nodes right below the same calls as these, with these."""
        return (self.parents >= 0) & self._callers(nodes)[np.maximum(self.parents, 0)]

    def below(self, mask: Mask) -> Mask:
        """The nodes of a mask and all below them."""
        return masks.below(self.profile, mask)

    def nearest(self, mask: Mask) -> Ids:
        """By node, the innermost of a mask that it is or is in; -1 for none."""
        return masks.nearest(self.profile, mask)

    def outermost(self, mask: Mask) -> Mask:
        """Those of a mask that no other one of it is around."""
        return masks.outermost(self.profile, mask)

    def idle(self, *reasons: str) -> Mask:
        """The gaps of these reasons that come in each step."""
        named = self.where(lambda symbol: symbol.kind == "idle" and symbol.name in reasons)
        return named & self.steps.again

    @cached_property
    def backward(self) -> Mask:
        """Nodes of backward passes."""
        return masks.backward(self.profile)

    @cached_property
    def steady(self) -> Mask:
        """Nodes that are not known to be of the time before the first step."""
        return self.steps.late

    @property
    def knows_steps(self) -> bool:
        """Whether what came before the first step is told from the steps."""
        return self.steps.knows_setup

    @cached_property
    def compiling(self) -> Mask:
        """What compiles, or tries variants, with all below."""
        return self.steps.compiling

    @cached_property
    def jax(self) -> Mask:
        """JAX's own code, and the functions of JAX that XLA runs, with all below."""
        return self.below(self.where(lambda symbol: of_jax(symbol) or runs_jax(symbol)))

    @cached_property
    def programs_of_jax(self) -> Ids:
        """By node, the range of the function of JAX that XLA runs there; -1 for none."""
        return self.nearest(self.where(runs_jax))

    @cached_property
    def loaders(self) -> Mask:
        """PyTorch's scopes around the next batch of data loaders without workers."""
        return self.outermost(self.where(lambda symbol: bool(_LOADER.match(symbol.name))))

    @cached_property
    def fetching(self) -> frozenset[int]:
        """Operations that copy from a device to the host."""
        copied = self.where(lambda symbol: symbol.kind == "memcpy" and "DtoH" in symbol.name)
        return frozenset(self.ops[copied].tolist()) - {-1}

    # -- in order

    def _in_order(self, kernels: Mask) -> Iterator[int]:
        """Yield these kernels, those of one call together, and calls by their first launch: ids of
        kernels are in the order of launches, those of the frames and operations around them are
        not always."""
        count, profile = len(self.parents), self.profile
        first = np.where(kernels, np.arange(count), count)
        for level in reversed(profile.levels[1:]):
            np.minimum.at(first, self.parents[level], first[level])
        left = profile.roots()
        left.sort(key=lambda node: -first[node])
        while left:
            node = left.pop()
            if kernels[node]:
                yield node
            below = [each for each in profile.children(node) if first[each] < count]
            left += sorted(below, key=lambda each: -first[each])

    def runs(self, kernels: Mask, key: Callable[[int], Hashable]) -> Iterator[list[int]]:
        """Kernels in a row, of one pass (forward or backward), that have a key in common.

        One whose key is None is in no run, and ends the one before it.
        """
        for of_pass in (kernels & ~self.backward, kernels & self.backward):
            for found, nodes in itertools.groupby(self._in_order(of_pass), key):
                if found is not None:
                    yield list(nodes)

    def visit(self, node: int) -> Hashable:
        """The visit of a function that a frame stands in, whichever of its lines that is; for
        other nodes the node."""
        place = self.profile.locations[node]
        if self.profile.kinds[node] == "frame" and place is not None:
            return int(self.parents[node]), place.file, place.function
        return node

    def repeated(self, node: int, times: float) -> bool:
        """Whether what happened so often at a node did at least at every other visit around it.

        What happens once, as at the start or at the end of a program, is not worth a change.
        """
        return bool(self.steps.inside[node] and times >= self.steps.least[node])

    # -- places

    @cached_property
    def users(self) -> Mask:
        """Frames and scopes whose line is the user's own."""
        return self.where(_is_users)

    @cached_property
    def lines(self) -> Ids:
        """By node, the innermost of them; -1 for none."""
        return self.nearest(self.users)

    @cached_property
    def functions(self) -> Ids:
        """By node, the innermost frame of the user's, module or scope; -1 for none."""
        shown = np.array([bool(name) for name in self.program.shown])[self.profile.symbol]
        return self.nearest(self.kind("frame", "scope") & shown)

    @cached_property
    def scopes(self) -> Ids:
        """By node, the innermost scope; -1 for none."""
        return self.nearest(self.kind("scope"))

    @cached_property
    def texts(self) -> dict[str, str]:
        """Texts of the files whose lines lead to operations, keyed by file; the other files, such
        as those that were only imported, are many times as many."""
        leads = masks.inclusive(self.profile, self.kind("op").astype(np.float64)) > 0
        nodes = np.flatnonzero(leads & self.kind("frame")).tolist()
        places = (self.profile.locations[node] for node in nodes)
        files = dict.fromkeys(place.file for place in places if place is not None)
        held = self.profile.tables.sources
        return {file: held[file] for file in files if file in held}

    @cached_property
    def ops(self) -> Ids:
        """By node, the innermost operation; -1 for none."""
        return self.nearest(self.kind("op"))

    def line(self, node: int) -> Location | None:
        """The user's line that led to a node."""
        at = int(self.lines[node])
        return self.profile.locations[at] if at >= 0 else self.profile.locations[node]

    def op(self, node: int) -> str:
        """The operation around a node, or nothing."""
        at = int(self.ops[node])
        return self.profile.names[at] if at >= 0 else ""

    def place(self, node: int) -> Place:
        """Where a node is."""
        kernel = self.profile.names[node] if self.profile.kinds[node] == "kernel" else ""
        return Place(kernel, self.program.path(node), self.op(node), self.line(node))

    def told(self, node: int) -> str:
        """A node's place in a few words: `train.py:12, aten::mm`."""
        line, op = self.line(node), self.op(node)
        where = line.short if line else ""
        return ", ".join(filter(None, (where, op))) or self.profile.names[node]


def _is_users(symbol: Symbol) -> bool:
    place = symbol.location
    return (
        symbol.kind in ("frame", "scope")
        and place is not None
        and not is_installed(place.file)
    )  # fmt: skip
