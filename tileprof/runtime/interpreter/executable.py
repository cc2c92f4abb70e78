"""A kernel as something that can be run on arguments."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tileprof import ir
from tileprof.errors import ArgumentError, InternalError, TileprofError, UsageError
from tileprof.runtime import hooks
from tileprof.runtime.arguments import as_array, is_writable
from tileprof.runtime.device import RunResult
from tileprof.runtime.events.access import current
from tileprof.runtime.interpreter.state import Output

from . import control
from .buffers import Buffer, Memory
from .convert import constant
from .dispatch import prepare
from .facts import find_facts
from .recording import Recorder
from .state import Options, State

WHILE_LIMIT = "TILEPROF_WHILE_LIMIT"


class InterpreterExecutable:
    """Runs a kernel over NumPy arrays and checks every access.

    `clock` gives ns (None: `hooks.clock`, as it is at the launch); where it has a method
    `advance(op, blocks)` it is told of every op that ran (`OpClock`).  `batch` fixes how many
    blocks run at once.
    """

    def __init__(
        self,
        kernel: ir.Kernel,
        *,
        strict_bounds: bool = False,
        clock: Callable[[], int] | None = None,
        batch: int | None = None,
        while_limit: int | None = None,
    ) -> None:
        self.kernel = kernel
        limit = _limit() if while_limit is None else while_limit
        self.options = Options(strict_bounds, batch, limit)
        self._clock = clock
        self._facts = find_facts(kernel)
        self._code, self._constants = prepare(kernel, self._facts)

    def run(self, values: Sequence[Any], symbols: Sequence[int]) -> RunResult:
        """Run to the end; see `Executable.run`.

        ExecutionError and its subclasses where the kernel goes wrong; what it had written until
        then stays written.
        """
        clock = self._clock or hooks.clock
        state = self._start(values, symbols, clock)
        begin = clock()
        try:
            with np.errstate(all="ignore"):
                if self.kernel.body.ops:
                    control.run(state, self.kernel.body)
        except TileprofError:
            raise
        except Exception as error:
            raise _internal(state.op, error) from error
        finally:
            state.output.flush()
        taken = clock() - begin
        return RunResult(
            time_ns=taken,
            grid=state.grids[0] if state.grids else (),
            blocks=sum(math.prod(g) for g in state.grids),
            guarded=sum(state.guarded.values()),
            guarded_by_line={k: n for k, n in state.guarded.items() if k is not None},
            sites=state.recorder.collect() if self.kernel.sites else None,
        )

    def _start(
        self, values: Sequence[Any], symbols: Sequence[int], clock: Callable[[], int]
    ) -> State:
        tick = getattr(clock, "advance", None)
        recorder = Recorder(clock)
        state = State(
            self.kernel, self._facts, self.options, recorder, Output(), self._code,
            self._constants, tick, current.get(),
        )  # fmt: skip
        if state.events is not None:
            state.events.begin(self.kernel, values, symbols)
        state.begin(np.zeros(1, np.int64), launched=False)
        for param, held, value in zip(self.kernel.params, self.kernel.param_values(), values):
            state.env[held] = (
                self._argument(param, held, value)
                if isinstance(param.type, ir.BufferType)
                else constant(_number(value), param.type)
            )
        state.env.update(zip(self.kernel.symbol_values().values(), map(int, symbols)))
        return state

    def _argument(self, param: ir.Param, held: ir.Value, value: Any) -> Buffer:
        array = as_array(value)
        type_ = held.buffer
        if array.dtype != type_.dtype.to_numpy():
            raise ArgumentError(
                f"`{param.name}` has elements of {array.dtype}, not {type_.dtype}",
                location=self.kernel.location,
                hint=f"Convert it: `{param.name}.astype(...)`.",
            )
        if held in self._facts.written and not is_writable(value):
            raise ArgumentError(
                f"`{param.name}` is written by the kernel, but the array is read-only",
                location=self.kernel.location,
                hint="Pass a copy, which can be written.",
            )
        out = param.role == "out"
        memory = Memory(array, blank=out, by_bits=held in self._facts.by_bits)
        safe = constant(param.safe_value, type_.dtype)
        return Buffer(param.name, type_, array.shape, memory, 0, safe, out)


def _number(value: Any) -> bool | int | float:
    number: bool | int | float = value.item() if hasattr(value, "item") else value
    return number


def _limit() -> int:
    text = os.environ.get(WHILE_LIMIT, "1000000")
    if not text.isdigit() or int(text) == 0:
        raise UsageError(f"{WHILE_LIMIT} is `{text}`", hint="Give it a number of iterations.")
    return int(text)


def _internal(op: ir.OpBase | None, error: Exception) -> InternalError:
    return InternalError(
        f"the interpreter failed in `{op.mnemonic if op else 'kernel'}`:"
        f" {type(error).__name__}: {error}",
        location=op.span if op else None,
        hint="Please report this with the kernel and its arguments.",
    )
