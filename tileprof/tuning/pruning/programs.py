"""Programs and machine code of a Triton kernel's configurations, as Triton itself makes them.

In: a function of `@triton.jit`, the arguments of a call, a `triton.Config`.  Out: `Program`: the
TTIR and the launch's numbers; its machine code on request.  This goes the way of
`JITFunction.run` up to the launch, so the machine code is in Triton's own cache when the tuner
times a configuration that was kept.

All that depends on Triton's version is here; where it has another form, `NotKnown` is raised.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tileprof.profiler.frameworks.triton_accesses import Work, work_of
from tileprof.profiler.frameworks.triton_bytes import argument_places, stored_bytes
from tileprof.profiler.frameworks.triton_ir import Unknown, parse
from tileprof.remarks.pruning import (
    ArgumentsNotFitting,
    GridNotKnown,
    KernelNotCompiled,
    OtherTriton,
    ProgramNotUnderstood,
)

from .configured import Configured, NotKnown, Resources

_OWN = ("grid", "warmup")
"""Keywords of a call that are the launcher's."""
_GROUPS = ("ttng.warp_group_dot", "ttng.tc_gen5_mma")
_AHEAD = ("ttg.async_copy_global_to_local", "ttng.async_tma_copy_global_to_local")


class Refused(Exception):
    """Triton's compiler does not compile a configuration, for a reason that its tuner accepts."""


@dataclass(frozen=True)
class Call:
    """A call of a tuned kernel."""

    function: Any
    """The `JITFunction`, or what stands around it (`Heuristics`)."""
    named: Mapping[str, Any]
    """Arguments by name, without those that configurations give."""
    grid: Any
    target: Any
    """A `GPUTarget` of Triton."""


@dataclass(frozen=True)
class Program:
    """The program of one configuration."""

    text: str
    """Its TTIR."""
    configured: Configured
    source: Any
    """Source that Triton compiles: an `ASTSource`."""
    options: Any

    def compiled(self, target: Any) -> Resources:
        """Return what the machine code takes, which is made now unless Triton has it.

        Raises `Refused`.
        """
        import triton

        try:
            kernel = triton.compile(self.source, target=target, options=self.options.__dict__)
        except Exception as error:
            if type(error).__name__ in _ACCEPTED:
                raise Refused(_first_line(error)) from error
            raise NotKnown(KernelNotCompiled(message=_first_line(error))) from error
        return resources_of(kernel)


_ACCEPTED = ("OutOfResources", "CompileTimeAssertionFailure", "PTXASError")
"""Errors at which Triton's tuner leaves a configuration out."""


def resources_of(kernel: Any) -> Resources:
    """Return the resources of a `CompiledKernel`, from its machine code."""
    from tileprof.binary import read

    code: bytes = kernel.asm["cubin"]
    cubin = read(code)
    found = cubin.functions.get(kernel.metadata.name) or next(iter(cubin.functions.values()))
    held, text = found.resources, kernel.asm.get("ttgir", "")
    return Resources(
        held.registers,
        held.local_bytes,
        int(kernel.metadata.shared),
        any(each in text for each in _GROUPS),
        any(each in text for each in _AHEAD),
        hashlib.sha256(code).hexdigest(),
    )


def current_target() -> Any:
    """Return the target of the device that Triton launches on.  Raises `NotKnown`."""
    try:
        from triton.runtime.driver import driver

        return driver.active.get_current_target()
    except Exception as error:  # Triton without a device raises RuntimeError and others
        raise NotKnown(OtherTriton(message=_first_line(error))) from error


def compiles_in_threads() -> bool:
    """Return whether this version of Triton compiles in several threads at once by itself, and so
    may be asked to."""
    import triton

    return hasattr(triton, "AsyncCompileMode")


def program_of(call: Call, config: Any) -> Program:
    """Return the program of a configuration for a call.

    Raises `NotKnown`, or `Refused` where a static assertion of the kernel does not hold.
    """
    try:
        return _program(call, config)
    except (NotKnown, Refused):
        raise
    except Unknown as error:
        raise NotKnown(ProgramNotUnderstood(what=_first_line(error))) from error
    except Exception as error:
        # Whatever goes wrong costs time in the tuner, never the author's program.
        raise NotKnown(OtherTriton(message=_first_line(error))) from error


def _program(call: Call, config: Any) -> Program:
    from triton.compiler import ASTSource, make_backend
    from triton.runtime import jit

    named = {name: each for name, each in call.named.items() if name not in _OWN}
    settings = config.all_kwargs()
    if config.pre_hook is not None:
        # It may set shapes of descriptions, which the program depends on; the tuner calls it too.
        config.pre_hook({**named, **settings})
    function = call.function
    named |= settings
    while hasattr(function, "values") and hasattr(function, "fn"):
        for name, value in function.values.items():
            named[name] = value(named)
        function = function.fn
    named.setdefault("debug", getattr(function, "debug", None) or _knob("runtime", "debug"))
    if (mode := _knob("compilation", "instrumentation_mode")) is not None:
        named.setdefault("instrumentation_mode", mode)
    backend = make_backend(call.target)
    binder = jit.create_function_from_signature(function.signature, function.params, backend)
    bound, specialization, rest = binder(**named)
    packed = function._pack_args(backend, named, bound, specialization, rest)
    options, signature, constants, attributes = packed
    source = ASTSource(function, signature, constants, attributes)
    text = _text(source, backend, options, call.target)
    work = work_of(parse(text), steps=True)
    places = argument_places(source, work.arguments, 0)
    if places is None:
        raise NotKnown(ArgumentsNotFitting())
    arguments, sizes = _launch_numbers(list(bound.values()), places)
    configured = Configured(
        work,
        _grid(call.grid, bound),
        arguments,
        sizes,
        int(options.num_warps),
        int(options.num_stages),
        int(getattr(options, "num_ctas", 1)),
        int(call.target.arch),
        _alike(text, work, options),
    )
    return Program(text, configured, source, options)


def _text(source: Any, backend: Any, options: Any, target: Any) -> str:
    """Return the TTIR of a source, which takes some ms: no later pass runs."""
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    functions = backend.get_codegen_implementation(options)
    try:
        module = source.make_ir(target, options, functions, backend.get_module_map(), context)
        return str(stages["ttir"](module, {**options.__dict__}))
    except Exception as error:
        if type(error).__name__ in _ACCEPTED:
            raise Refused(_first_line(error)) from error
        raise NotKnown(KernelNotCompiled(message=_first_line(error))) from error


def _alike(text: str, work: Work, options: Any) -> str:
    """Return a digest of all that the machine code follows from.

    The number of stages does not count where no loop has a product: Triton runs loads of other
    loops ahead only where the loop itself says how far.
    """
    left = {**options.__dict__}
    multiplied = any(each.name.startswith("tt.dot") and each.around for each in work.steps)
    if not multiplied and "tt.num_stages" not in text:
        left.pop("num_stages", None)
    made = text + repr(sorted(left.items(), key=lambda each: each[0]))
    return hashlib.sha256(made.encode()).hexdigest()


def _launch_numbers(
    values: Sequence[Any], places: Sequence[int]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return whole numbers and bytes of tensors, by position in the program."""
    arguments: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for at, place in enumerate(places):
        if place < 0:
            continue
        value = values[place]
        if isinstance(value, int):
            arguments[at] = int(value)
            continue
        tensor = value if hasattr(value, "nbytes") else getattr(value, "base", None)
        if tensor is not None and hasattr(tensor, "nbytes"):
            sizes[at] = stored_bytes(tensor)
    return arguments, sizes


def _grid(grid: Any, bound: Mapping[str, Any]) -> tuple[int, int, int]:
    try:
        made = grid(dict(bound)) if callable(grid) else grid
        x, y, z = (*(int(each) for each in made), 1, 1)[:3]
    except Exception as error:
        raise NotKnown(GridNotKnown(message=_first_line(error))) from error
    if math.prod((x, y, z)) <= 0:
        raise NotKnown(GridNotKnown(message=f"{x} x {y} x {z} blocks"))
    return x, y, z


def _knob(group: str, name: str) -> Any:
    """Return a setting of Triton's; None where this version has none."""
    try:
        from triton import knobs
    except ImportError:
        return None
    return getattr(getattr(knobs, group, None), name, None)


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
