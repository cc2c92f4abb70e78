"""Put records around the sites of a kernel: the last pass, so that nothing else sees them.

    scope softmax {                record begin {site = 0}
      parallel …            →      scope softmax {
    }                                parallel …
                                   }
                                   record end {site = 0}

| mode   | sites                                                                         |
| ------ | ----------------------------------------------------------------------------- |
| off    | none                                                                          |
| scopes | every `scope`                                                                 |
| stages | and the stages of pipelined loops and of the blocks around them (`stages.py`) |
| ops    | and every tile op and `parallel`                                              |

A `break` or `continue` that leaves open sites ends them first.  Inside a `parallel` there are no
sites: its points have no order, so none has a time of its own.  The same place of the source in
copies of one unrolled loop is one site, visited more often.  `strip` takes everything out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from tileprof import ir
from tileprof.errors import Location
from tileprof.ir.kernel import SiteKind
from tileprof.ir.rewriter import opened

from .stages import Stage, op_name, split

Mode = Literal["off", "scopes", "stages", "ops", "sample"]


def insert(kernel: ir.Kernel, mode: Mode) -> ir.Kernel:
    """Return the kernel with records for the sites of `mode`, and with its table of sites; none for
    `sample`, which observes a kernel from outside."""
    kernel = strip(kernel)
    if mode in ("off", "sample"):
        return kernel
    inserter = _Inserter(mode)
    body = inserter.block(kernel.body, None)
    return kernel.with_body(body, tuple(inserter.sites)) if inserter.sites else kernel


def strip(kernel: ir.Kernel) -> ir.Kernel:
    """Return the kernel without records and sites."""
    if not kernel.sites and not any(isinstance(op, ir.Record) for op in kernel.ops()):
        return kernel
    bare = ir.rewrite(kernel, lambda op, builder: () if isinstance(op, ir.Record) else None)
    return replace(bare, sites=())


class _Inserter:
    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self.sites: list[ir.Site] = []
        self._known: dict[tuple[str, SiteKind, Location, int | None], int] = {}
        self._mapping: dict[ir.Value, ir.Value] = {}
        # Open sites; the inner list is what a `break` or `continue` here would leave.
        self._open: list[list[int]] = [[]]

    def block(self, block: ir.Block, owner: ir.OpBase | None) -> ir.Block:
        """Return a copy of a block with records in it; `owner` is the op that holds it."""
        made = opened(block, self._mapping)
        builder = ir.Builder(made)
        for stage in self._stages(block, owner):
            site = self._begin(builder, stage.name, "stage", stage.location)
            for op in stage.ops:
                self._op(op, builder)
            self._end(builder, site)
        return made

    def _stages(self, block: ir.Block, owner: ir.OpBase | None) -> Sequence[Stage]:
        measured = owner is not None and self.mode in ("stages", "ops")
        return split(block, owner) if owner is not None and measured else [Stage("", block.ops)]

    def _op(self, op: ir.OpBase, builder: ir.Builder) -> None:
        builder.span = op.span
        if isinstance(op, (ir.Break, ir.Continue)):
            for site in reversed(self._open[-1]):
                builder.emit(ir.Record("end", site))
        opened = self._begin(builder, *self._site_of(op))
        new = builder.emit(ir.clone(op, self._mapping, self._regions(op)))
        self._mapping.update(zip(op.results, new.results, strict=True))
        self._end(builder, opened)

    def _regions(self, op: ir.OpBase) -> dict[str, ir.Block]:
        if isinstance(op, ir.Parallel):
            return {"body": ir.clone_block(op.body, self._mapping)}
        loops = isinstance(op, (ir.For, ir.While))
        if loops:
            self._open.append([])
        regions = {name: self.block(getattr(op, name), op) for name in op.SPEC.regions}
        if loops:
            self._open.pop()
        return regions

    def _site_of(self, op: ir.OpBase) -> tuple[str, SiteKind, Location | None]:
        if isinstance(op, ir.Scope):
            return op.name, "scope", op.span
        return op_name(op) if self.mode == "ops" else "", "op", op.span

    def _begin(
        self, builder: ir.Builder, name: str, kind: SiteKind, location: Location | None
    ) -> int | None:
        """Open a site, unless it has no name."""
        if not name:
            return None
        parent = next((held[-1] for held in reversed(self._open) if held), None)
        site = self._number(name, kind, location, parent)
        builder.span = location
        builder.emit(ir.Record("begin", site))
        self._open[-1].append(site)
        return site

    def _number(
        self, name: str, kind: SiteKind, location: Location | None, parent: int | None
    ) -> int:
        site = len(self.sites)
        # Stages of one loop share its location, and text without locations says nothing: no reuse.
        if location is not None and kind != "stage":
            known = self._known.setdefault((name, kind, location, parent), site)
            if known != site:
                return known
        self.sites.append(ir.Site(site, name, kind, location, parent))
        return site

    def _end(self, builder: ir.Builder, site: int | None) -> None:
        if site is None:
            return
        self._open[-1].pop()
        if not _leaves(builder.block):
            builder.span = self.sites[site].location
            builder.emit(ir.Record("end", site))


def _leaves(block: ir.Block) -> bool:
    """Return whether every path through the block ends in a `break` or `continue`."""
    match block.ops[-1:]:
        case [ir.Break() | ir.Continue()]:
            return True
        case [ir.Scope(body=body)]:
            return _leaves(body)
        case [ir.If(then=then, otherwise=otherwise)]:
            return _leaves(then) and _leaves(otherwise)
        case _:
            return False
