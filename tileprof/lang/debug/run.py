"""One call of a kernel as plain Python: its own function, over NumPy, line by line."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprof.errors import Location
from tileprof.lang.calls import given_of, spec_of
from tileprof.lang.context import activate
from tileprof.lang.functions import Kernelized, PrimFunc
from tileprof.lang.spans import users_traceback
from tileprof.lang.specialize import unannotated
from tileprof.lang.static import is_number
from tileprof.lang.tensors import TensorType
from tileprof.lang.trace import Knowledge, Retrace
from tileprof.runtime import hooks
from tileprof.runtime.arguments import TensorSpec

from .debugger import stepping_over_ours
from .rewriting import direct
from .signature import Call

Outcome = tuple[Any, BaseException | None]


def run_eager(
    function: Kernelized,
    annotations: Mapping[str, Any],
    values: Mapping[str, Any],
    extents: Mapping[str, int],
) -> Outcome:
    """Run a function whose body annotates its tensors; gives its outputs (or the `prim_func`
    that it returns), and the error that ended it, which the caller raises."""

    def start(knowledge: Knowledge) -> Call:
        return _call(function, values, knowledge)

    def body(call: Call) -> Any:
        names = list(function.signature.parameters)
        args = {n: _eager_argument(call, n, values.get(n), annotations.get(n)) for n in names}
        held = direct(function)(**args)
        return held if isinstance(held, PrimFunc) else call.returned(held)

    return _run(function, extents, start, body)


def _eager_argument(call: Call, name: str, value: Any, annotation: Any) -> Any:
    held = unannotated(name) if name in call.given else value
    return held if annotation is None else call.argument(name, held, annotation)


def run_prim_func(
    function: PrimFunc,
    values: Mapping[str, Any],
    outs: Sequence[str],
    extents: Mapping[str, int],
) -> Outcome:
    """Run a function whose parameters are all annotated; `outs` are allocated and returned.
    Gives them and the error that ended it, which the caller raises."""

    def start(knowledge: Knowledge) -> Call:
        call = _call(function, values, knowledge, outs)
        for name, annotation in function.annotations.items():
            if isinstance(annotation, TensorType) and name in call.given:
                call.bind(name, annotation)
        return call

    def body(call: Call) -> Any:
        args = {n: call.argument(n, None, a) for n, a in function.annotations.items()}
        direct(function)(**{n: args[n] for n in function.signature.parameters})
        arrays = tuple(call.arrays[args[n].value] for n in outs)
        return arrays[0] if len(arrays) == 1 else arrays or None

    return _run(function, extents, start, body)


def _call(
    function: Kernelized,
    values: Mapping[str, Any],
    knowledge: Knowledge,
    outs: Sequence[str] = (),
) -> Call:
    location = function.location
    specs: dict[str, TensorSpec] = {}
    for name, value in values.items():
        spec = None if is_number(value) else spec_of(value, name, location)
        if spec is not None:
            specs[name] = spec
    given = {n: given_of(s) for n, s in specs.items()}
    strict = os.environ.get("TILEPROF_CHECK") == "1"
    code = direct(function).__code__
    name = function.kernel_name
    return Call(code, direct, strict, name, location, values, specs, given, knowledge, outs)


def _run(
    function: Kernelized,
    extents: Mapping[str, int],
    start: Callable[[Knowledge], Call],
    body: Callable[[Call], Any],
) -> Outcome:
    listener = hooks.listener
    kernel = _Description(function)
    token = None if listener is None else listener.begin(kernel)
    begin = time.perf_counter_ns()
    knowledge = Knowledge(dict(extents))
    while True:
        call = start(knowledge)
        try:
            with activate(call), np.errstate(all="ignore"), stepping_over_ours():
                made = body(call)
            break
        except Retrace:
            continue
        except BaseException as error:
            if listener is not None and token is not None:
                listener.abandon(token)
            # Raised by the caller: fewer frames of ours stand between the user's.
            return None, error.with_traceback(users_traceback(error.__traceback__))
    call.write_back()
    taken = time.perf_counter_ns() - begin
    if listener is not None and token is not None:
        listener.end(token, _launch(kernel, call, taken))
    return made, None


def _launch(kernel: _Description, call: Call, taken: int) -> hooks.Launch:
    grids = call.machine.grids
    return hooks.Launch(
        kernel,
        kernel.device,
        grids[0] if grids else (),
        sum(math.prod(g) for g in grids),
        taken,
        taken,
        guarded=sum(call.machine.guarded.values()),
    )


@dataclass(frozen=True, slots=True)
class _Description:
    """A kernel that runs as plain Python: device `interpreter`, attribute `debug`."""

    function: Kernelized
    device: str = "interpreter"

    @property
    def key(self) -> Hashable:
        """Key that distinguishes kernels."""
        return self

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.function.kernel_name

    @property
    def location(self) -> Location | None:
        """Location of the kernel's function."""
        return self.function.location

    def info(self) -> hooks.KernelDescription:
        """Return the description that a profile keeps; there is no program."""
        location = self.function.location
        return hooks.KernelDescription(
            name=self.name,
            device=self.device,
            source_file=location.file,
            source_line=location.line,
            attributes={"debug": 1},
        )
