"""The judge of kernels: hidden cases in the interpreter and on the cpu, then conditions."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tileprof.compiler.build import find_compiler
from tileprof.errors import InternalError, TileprofError, last_line, said
from tileprof.runtime.events.access import listening
from tileprof.runtime.selection import device

from .difference import Difference
from .exercise import Array, Attempt, Cases, Failure, Result
from .watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileprof.lang.jit_function import JitFunction, Kernel

SEED = 27
"""Seed of the hidden cases, so that two checks of one file agree."""


@dataclass(frozen=True)
class Ran:
    """A hidden case that ran in the interpreter with right values."""

    function: JitFunction
    kernel: Kernel
    args: tuple[Any, ...]
    watch: Watch
    case: str
    first: bool = True
    """Whether it is the first case, which has the extents of ordinary use."""


class Condition(Protocol):
    """Condition on a solution beyond right values."""

    @property
    def text(self) -> str:
        """The condition as a sentence."""
        ...

    def failure(self, ran: Ran) -> Failure | None:
        """Return what is wrong in a case that ran; None where the condition holds."""
        ...


@dataclass(frozen=True)
class KernelJudge:
    """Compares a kernel with a specification."""

    name: str
    """Name of the kernel."""
    spec: Callable[..., Any]
    cases: Cases
    wanted: tuple[Condition, ...] = ()
    rtol: float = 1e-5
    atol: float = 1e-6
    arguments: tuple[str, ...] = field(init=False)
    """Names of the arguments, those of the specification."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", tuple(inspect.signature(self.spec).parameters))

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions as sentences."""
        return tuple(each.text for each in self.wanted)

    def judge(self, attempt: Attempt) -> Result:
        """Run all cases in the interpreter, the first one on the cpu, then test the conditions."""
        function: Any = attempt.members.get(self.name)
        if wrong := _not_a_kernel(function, self.name, attempt.place):
            return Result(self.name, wrong)
        cases = list(self.cases(np.random.default_rng(SEED)))
        held: list[Ran] = []
        for args in cases:
            ran = self._interpret(function, args, not held)
            if isinstance(ran, Failure):
                return Result(self.name, ran)
            held.append(ran)
        devices = ["interpreter"]
        if find_compiler() is not None:
            devices.append("cpu")
            if wrong := self._compute(function, held[0]):
                return Result(self.name, wrong)
        for condition in self.wanted:
            for ran in held:
                if wrong := condition.failure(ran):
                    return Result(self.name, wrong)
        return Result(self.name, None, len(cases), tuple(devices), self.conditions)

    def _interpret(
        self, function: JitFunction, args: tuple[Any, ...], first: bool
    ) -> Ran | Failure:
        watch, shown = Watch(), self._shown(args)
        given = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)
        try:
            with device("interpreter"), listening(watch):
                result = function(*given)
            if not watch.grids:
                return Failure(
                    "launch",
                    f"`{self.name}` launched no kernel",
                    function.location,
                    "The work belongs in a `with T.Kernel(…)` of the function itself; a kernel "
                    "under `debug=True` or TILEPROF_DEBUG=1 runs as plain Python and does not "
                    "count.",
                    shown,
                    "interpreter",
                )
            kernel = function.compile(*args)
        except InternalError:
            raise
        except TileprofError as error:
            return _refused(error, shown, "interpreter")
        except Exception as error:
            # Python that runs while the kernel is traced is the learner's, and so are its errors.
            place = last_line(error, function.location.file if function.location else "")
            if place is None:
                raise
            message = f"the kernel cannot be traced: {said(error)}"
            return Failure("kernel", message, place, "", shown, "interpreter")
        outputs = [kernel.traced.params[at].name for at in kernel.variant.traced.returned]
        ran = Ran(function, kernel, args, watch, shown, first)
        for name, before, after in zip(self.arguments, args, given):
            if isinstance(before, np.ndarray) and before.tobytes() != after.tobytes():
                message = f"the kernel changes its argument `{name}`"
                advice = "Write results to `T.empty` only."
                return Failure("values", message, function.location, advice, shown, "interpreter")
        return self._compared(result, outputs, ran, "interpreter") or ran

    def _compute(self, function: JitFunction, ran: Ran) -> Failure | None:
        """Run a case on the cpu."""
        try:
            with device("cpu"):
                result = function(*ran.args)
        except InternalError:
            raise
        except TileprofError as error:
            return _refused(error, ran.case, "cpu")
        outputs = [f"result {at}" for at in range(len(ran.kernel.variant.traced.returned))]
        return self._compared(result, outputs, ran, "cpu")

    def _compared(
        self, result: Any, outputs: Sequence[str], ran: Ran, where: str
    ) -> Failure | None:
        """Return the first difference of the results from the specification."""
        expected = self.spec(*ran.args)
        wanted = expected if isinstance(expected, tuple) else (expected,)
        got = result if isinstance(result, tuple) else (result,)
        if result is None or len(got) != len(wanted):
            count = 0 if result is None else len(got)
            message = f"`{self.name}` returns {count} tensors, expected {len(wanted)}"
            return Failure("values", message, ran.function.location, "", ran.case, where)
        for name, one, right in zip(outputs, got, wanted):
            if message := _other_kind(name, one, right):
                return Failure("values", message, ran.function.location, "", ran.case, where)
            watch = ran.watch if where == "interpreter" else None
            found = Difference.first(name, one, right, self.rtol, self.atol, watch)
            if found is not None:
                return Failure("values", found.text(), None, found.explained(), ran.case, where)
        return None

    def _shown(self, args: tuple[Any, ...]) -> str:
        """Return arguments as `A float32[100], scale 2.0`."""
        return ", ".join(
            f"{name} {value.dtype}{list(value.shape)}"
            if isinstance(value, np.ndarray)
            else f"{name} {value}"
            for name, value in zip(self.arguments, args)
        )


def _not_a_kernel(function: Any, name: str, place: str) -> Failure | None:
    """Return why a member cannot be judged."""
    from tileprof.lang.jit_function import JitFunction

    if function is None:
        return Failure("file", f"{place} has no kernel `{name}`", None,
                       f"Define it: `@tileprof.jit` above `def {name}(…):`.")  # fmt: skip
    if not isinstance(function, JitFunction):
        return Failure(
            "kernel", f"`{name}` in {place} is not a kernel", None,
            "It must be a function under `@tileprof.jit`: NumPy on the arguments does not count.",
        )  # fmt: skip
    if function.lazy:
        return Failure("kernel", f"`{name}` returns a prim_func", function.location,
                       "Write the eager form: annotate the tensors in the body.")  # fmt: skip
    return None


def _refused(error: TileprofError, case: str, where: str) -> Failure:
    """Return the error of a kernel that is refused or goes wrong."""
    return Failure("kernel", error.message, error.location, error.hint, case, where)


def _other_kind(name: str, got: Any, expected: Array) -> str:
    """Return how shape or element type differ; '' where they do not."""
    if not isinstance(got, np.ndarray):
        return f"{name} is a {type(got).__name__}, expected an array"
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return (
            f"{name} is {got.dtype}{list(got.shape)}, "
            f"expected {expected.dtype}{list(expected.shape)}"
        )
    return ""
