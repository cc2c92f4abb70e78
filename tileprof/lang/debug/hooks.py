"""Hooks of a function that runs as plain Python: names and values; control flow stays Python's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tileprof import ir
from tileprof.lang.context import current
from tileprof.lang.rewrite.staged_loops import Adoption, LoopToken
from tileprof.lang.rewrite.staging import Entry, Staging
from tileprof.lang.values import Placeholder, Poison, Scalar, Var

from .context import Live
from .debugger import Inline, step_over_ours
from .values import LiveBuffer, LiveScalar, LiveVar, number_of


def _live() -> Live:
    held = current()
    assert isinstance(held, Live)
    return held


def _at_run_time(value: Any) -> bool:
    return isinstance(value, Scalar) and not isinstance(value, (Poison, Placeholder))


class Hooks(Staging):
    """The hooks of a function that `rewriting.py` made."""

    inline = Inline
    """Reached by the text of `Inline`."""

    # -- names

    def name(self, name: str, value: Any) -> Any:
        """`name = value`; a read that went wrong is an error by now."""
        if isinstance(value, LiveScalar):
            number_of(value.value)
        made = super().name(name, value)
        held = made.buffer if isinstance(made, LiveVar) else made
        if isinstance(held, LiveBuffer):
            held.memory.name = held.name or "buffer"
        return made

    def extent(self, value: Any) -> Any:
        """Return an extent that the arguments have given by now."""
        return _live().extent(value) if isinstance(value, Placeholder) else value

    def function(self) -> Entry:
        """Return the start of a function."""
        return _Entry(len(_live().regions))

    # -- blocks and loops

    def blocks(self, kernel: Any, names: Any) -> Iterator[Any]:
        """`with T.Kernel(…) as names:`, once for each block."""
        return _live().blocks(kernel.blocks, kernel.threads, names)

    def loop(self, iterable: Any, names: Any) -> LoopToken:
        """`for names in iterable`."""
        step_over_ours()
        return _Loop(_live(), iterable, names)

    def loop_while(self) -> Any:
        """`while …`."""
        return _While(_live())

    # -- conditions

    def bool_first(self, kind: str, value: Any) -> Any:
        """Return the first operand of `and` or `or`."""
        _live().pending.append(_Conjunction())
        return self.bool_next(value)

    def bool_next(self, value: Any) -> Any:
        """Return the truth of each further operand."""
        held = _live().pending[-1]
        assert isinstance(held, _Conjunction)
        held.at_run_time = held.at_run_time or _at_run_time(value)
        return value

    def bool_end(self, result: Any) -> Any:
        """Return the value of the whole: bool, where the kernel knows it."""
        live = _live()
        held = live.pending.pop()
        assert isinstance(held, _Conjunction)
        if not held.at_run_time:
            return result
        truth = result if _at_run_time(result) else bool(result)
        return live.truth(truth)

    def choice(self, condition: Any, plain: bool = True) -> bool:
        """Return the condition of `a if condition else b`; whether to evaluate `a`."""
        live = _live()
        held = _Choice(bool(condition), _at_run_time(condition))
        live.pending.append(held)
        return held.enter(live, held.holds, plain)

    def choice_then(self, value: Any) -> Any:
        """Return its first value."""
        return self._pending().leave(_live(), value)

    def choice_otherwise(self, plain: bool = True) -> bool:
        """Return whether to evaluate `b`."""
        held = self._pending()
        return held.enter(_live(), not held.holds, plain)

    def choice_else(self, value: Any) -> Any:
        """Return its second value."""
        return self._pending().leave(_live(), value)

    def choice_end(self, then: Any, otherwise: Any) -> Any:
        """Return the one that is chosen, in the type in which both meet."""
        live = _live()
        held = self._pending()
        live.pending.pop()
        wanted, other = (then, otherwise) if held.holds else (otherwise, then)
        if not held.at_run_time:
            return wanted
        return live.chosen(wanted, other if held.both else wanted)

    def _pending(self) -> _Choice:
        held = _live().pending[-1]
        assert isinstance(held, _Choice)
        return held


class _Entry(Entry):
    """A running function."""

    __slots__ = ()

    def returns(self, value: Any) -> Any:
        """`return value`; a read that went wrong is an error while its function still runs."""
        made = super().returns(value)
        for held in made if isinstance(made, tuple) else (made,):
            if isinstance(held, LiveScalar):
                number_of(held.value)
        return made


@dataclass(slots=True)
class _Conjunction:
    """`a and b`, `a or b` while its operands are evaluated."""

    at_run_time: bool = False


@dataclass(slots=True)
class _Choice:
    """`a if c else b` while its values are evaluated."""

    holds: bool
    at_run_time: bool
    both: bool = True
    """Whether both values were computed."""
    _trying: bool = False

    def enter(self, live: Live, wanted: bool, plain: bool) -> bool:
        """Return whether to evaluate a value: the wanted one, and the other one for its type."""
        self._trying = not wanted and plain and self.at_run_time
        if self._trying:
            live.trying += 1
        evaluated = wanted or self._trying
        self.both = self.both and evaluated
        return evaluated

    def leave(self, live: Live, value: Any) -> Any:
        """A value was evaluated."""
        made = live.load_var(value) if isinstance(value, Var) else value
        if self._trying:
            live.trying -= 1
            self._trying = False
        return made


class _Loop(LoopToken):
    """A `for` whose body runs for each point."""

    __slots__ = ()

    def _staged(self) -> Iterator[Any]:
        assert isinstance(self.tracer, Live)
        for held in self.tracer.iterate_points(self.iterable, self.names):
            yield self._arity(held)

    def _leave(self, op: ir.Break | ir.Continue) -> bool:
        return True


@dataclass(slots=True)
class _While(Adoption):
    """A `while`; Python decides."""

    turns: int = 0

    def test(self, condition: Any) -> bool:
        """Return the condition, evaluated again."""
        holds = bool(condition)
        if _at_run_time(condition):
            assert isinstance(self.tracer, Live)
            self.tracer.need_launch("`while`")
            self.staged = True
            if holds and self.turns >= self.tracer.machine.options.while_limit:
                self.tracer.fail_endless()
            self.turns += 1
        return holds

    def breaks(self) -> bool:
        """`break`."""
        return True


HOOKS = Hooks()
