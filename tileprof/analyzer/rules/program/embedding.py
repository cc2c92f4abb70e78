"""Embedding tables with dense gradients although few of their rows were looked up.

Static: none. Dynamic: bytes of the tables that operations look rows up in, and of these rows, from
shapes; time of the gradients of these operations and, of the optimizer's steps, the part that the
tables have in all of its parameters. A sparse gradient has the rows that were looked up: to write
and to add these takes time in proportion to them, more for each of their bytes than to write whole
tables, and on a host a time of its own. Where half of the rows are looked up nothing is gained. Of
n launches of a gradient all but four go, with the gaps before them.

An optimizer with state, or with decay, changes rows without a gradient too. Another one has to take
its place (torch.optim.SparseAdam), whose results are others; so its part is likely for optimizers
without state alone, and half of it for others; it is sure for none. Others are told of only where
tables are most of the parameters. A table that is also the matrix
of a product, as where a language model's first and last layers share it, gets a dense gradient
there: of such a table nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import LATE, Contexts, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, duration, percent
from tileprof.analyzer.fixes import SPARSE_GRADIENTS, Fix
from tileprof.analyzer.numbers.shared import COLD, LONGEST_SAVING
from tileprof.analyzer.program.masks import nodes_of
from tileprof.analyzer.rules.program.numbers import (
    EMBEDDING_LAUNCHES,
    EMBEDDING_MOSTLY,
    EMBEDDING_OTHER_OPTIMIZER,
    EMBEDDING_ROWS,
    EMBEDDING_ROWS_COST,
    EMBEDDING_SHARED,
    EMBEDDING_SPARSE_NS,
    EMBEDDING_SURE,
)
from tileprof.once import cached_property
from tileprof.profile import DEVICE_WORK, Symbol, optimizers_work
from tileprof.profile.training_facts import optimizer_facts

_STEP = re.compile(r"Optimizer\.step#")
_SPARSE = (
    "Give the table sparse gradients: nn.Embedding(…, sparse=True), or sparse=True of"
    " nn.EmbeddingBag."
)
_PLAIN = f"{_SPARSE} {{optimizer}} then updates only the rows that were looked up."
_STATEFUL = (
    f"{_SPARSE} Its parameters then need an optimizer that takes sparse gradients"
    " (torch.optim.SparseAdam, Adagrad, or SGD without momentum), which leaves rows alone that were"
    " not looked up: results are others than those of {optimizer}."
)


def find(program: Program) -> Iterator[Draft]:
    """All such tables, together."""
    tables = _Tables(Contexts(program))
    if not tables.bytes or tables.rows > EMBEDDING_ROWS * tables.bytes:
        return
    if not tables.is_plain and tables.part < EMBEDDING_MOSTLY:
        return
    if tables.whole and tables.saved[1] + tables.late >= COLD * tables.whole:
        yield tables.draft()


@dataclass(eq=False)
class _Tables:
    """The tables of a program that get dense gradients, and what these take."""

    tree: Contexts

    def __post_init__(self) -> None:
        tree = self.tree
        steps = tree.steps.inside
        self._table = np.where(steps, tree.own("table_bytes"), 0.0)
        self.lookups: Mask = self._table > 0
        """Operations that look rows up."""
        column, self.whole, self.whose = tree.worked
        self.on_devices = bool(tree.time.any())
        gradients = self._lookups_below & tree.backward & steps
        kinds = tree.kind(*DEVICE_WORK) if self.on_devices else np.ones_like(gradients)
        self.gradients: Mask = gradients & kinds & (column > 0)
        """What computes the gradients of these operations."""
        updates = tree.below(self._optimizers) & optimizers_work(tree.profile) & steps
        self.updates: Mask = updates & kinds & (column > 0)
        """What optimizers do, with all parameters."""
        self.of_gradients = float(column[self.gradients].sum())
        self.of_updates = float(column[self.updates].sum()) * self.part
        """Time of the part of the optimizer's work that is the tables', ns."""

    @cached_property
    def _lookups_below(self) -> Mask:
        """All below the operations that look rows up, their gradients too."""
        return self.tree.below(self.lookups)

    @cached_property
    def _optimizers(self) -> Mask:
        """Steps of optimizers."""
        named = self.tree.where(_is_step)
        return self.tree.outermost(named & self.tree.kind("scope"))

    @cached_property
    def bytes(self) -> float:
        """Bytes of the tables, once for each lookup, in all steps; 0 where products share them."""
        tree = self.tree
        whole = float(self._table.sum())
        products = np.where(tree.steps.inside, tree.own("shared_table_bytes"), 0.0)
        shared = float(products[tree.outermost(products > 0)].sum())
        return whole if shared < EMBEDDING_SHARED * whole else 0.0

    @cached_property
    def rows(self) -> float:
        """Bytes of the rows that were looked up."""
        return float(np.where(self.lookups, self.tree.own("row_bytes"), 0.0).sum())

    @cached_property
    def steps(self) -> float:
        """Number of the optimizers' steps."""
        return float(self.tree.count[self._optimizers & self.tree.steps.inside].sum())

    @cached_property
    def part(self) -> float:
        """Of the bytes of all parameters, what the tables have, 0 to 1; 0 where it is not known."""
        held = optimizer_facts(self.tree.profile.tables.provenance)
        every = sum(each.bytes for each in held) * self.steps / max(len(held), 1)
        return min(1.0, self.bytes / every) if every else 0.0

    @cached_property
    def optimizer(self) -> str:
        """Name of the optimizer's class; several, joined by `and`."""
        held = optimizer_facts(self.tree.profile.tables.provenance)
        return " and ".join(dict.fromkeys(each.name for each in held))

    @cached_property
    def is_plain(self) -> bool:
        """Whether the optimizers leave rows without a gradient as they are."""
        held = optimizer_facts(self.tree.profile.tables.provenance)
        return bool(held) and all(each.plain for each in held)

    @cached_property
    def gaps(self) -> Mask:
        """Gaps before late launches of the gradients' kernels."""
        tree = self.tree
        below = tree.below(self._lookups_below & tree.backward)
        return below & tree.idle(LATE) & ~tree.compiling

    @cached_property
    def late(self) -> float:
        """Time of these gaps that goes with launches, ns."""
        tree = self.tree
        visits = float(tree.count[self.lookups].sum())
        launches = float(tree.count[self.gradients & tree.kind("kernel")].sum())
        if not launches or not visits:
            return 0.0
        goes = max(0.0, 1 - EMBEDDING_LAUNCHES * visits / launches)
        return goes * tree.avoidable(self.gaps)

    @cached_property
    def saved(self) -> tuple[float, float, float]:
        """Time of devices, or of the host, that goes at least, likely, at most, ns."""
        rows = EMBEDDING_ROWS_COST * self.rows / self.bytes * self.of_gradients
        if not self.on_devices:
            rows += EMBEDDING_SPARSE_NS * float(self.tree.count[self.lookups].sum())
        updates = 1.0 if self.is_plain else EMBEDDING_OTHER_OPTIMIZER
        least, likely = (
            max(0.0, each - rows)
            for each in (
                EMBEDDING_SURE * self.of_gradients,
                self.of_gradients + updates * self.of_updates,
            )
        )
        return least, likely, max(likely, self.of_gradients + self.of_updates)

    def draft(self) -> Draft:
        """Return what is said of them."""
        tree = self.tree
        most = int(np.where(self.lookups, self._table, -1.0).argmax())
        advice = (_PLAIN if self.is_plain else _STATEFUL).format(
            optimizer=self.optimizer or "the one that it has"
        )
        fixes: tuple[Fix, ...] = (SPARSE_GRADIENTS,) if self.is_plain else ()
        held = self.gradients | self.updates if self.part else self.gradients
        return Draft(
            "suggestion",
            "Embedding tables get dense gradients although few rows are used, at"
            f" {tree.told(most)}",
            tree.place(most), tuple(self._evidence()), advice, "", self._saving(),
            confidence="medium" if self.is_plain else "low",
            nodes=nodes_of(held) if self.on_devices else (),
            gaps=nodes_of(self.gaps), fixes=fixes,
        )  # fmt: skip

    def _saving(self) -> Saving:
        low, mid, high = self.saved
        if self.on_devices:
            gaps = self.tree.unrecorded * self.late
            return self.tree.saving(low, mid + gaps, high + self.late, gaps, self.late)
        low, mid, high = (min(each / self.whole, LONGEST_SAVING) for each in (low, mid, high))
        return Saving(low, mid, high)

    def _evidence(self) -> Iterator[Evidence]:
        tree = self.tree
        visits = float(tree.count[self.lookups].sum())
        size = self.bytes / visits / 1e6 if visits else 0.0
        yield Evidence(
            "activities",
            f"{visits:,.0f} lookups in tables of {size:.3g} MB, whose rows that are looked up are"
            f" {percent(self.rows / self.bytes)} of that at most",
        )
        yield Evidence(
            "activities",
            f"their gradients take {duration(self.of_gradients)},"
            f" {percent(self.of_gradients / self.whole)} of {self.whose}",
        )
        if self.part:
            yield Evidence(
                "activities",
                f"tables are {percent(self.part)} of the bytes that {self.optimizer} updates, in"
                f" {percent(self.of_updates / self.part / self.whole)} of that time",
            )
        if self.late:
            lost = f"another {percent(tree.share(self.late))} is lost in gaps before launches of"
            yield Evidence("activities", f"{lost} their gradients")
            yield Evidence("activities", tree.recording)


def _is_step(symbol: Symbol) -> bool:
    return _STEP.match(symbol.name) is not None


RULE = ProgramRule("embedding", find)
