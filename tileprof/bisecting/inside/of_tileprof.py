"""Kernels of tileprof, of whichever version this interpreter imports.

Only names that are in use since the first releases are touched; where an older version lacks one,
the form that needs it is left out, and the comparison goes on without that level.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import linecache
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .cases import Case, Refused, Wanted
from .source import plain, source_of

_KINDS = {"JitFunction", "PrimFunc", "Kernel", "SavedKernel"}
_HOLDERS = ("tileprof.lang.compiled", "tileprof.lang.jit_function")
"""Modules that look up `controls_of` when a kernel is defined."""


def is_kernel(value: Any) -> bool:
    """Return whether a value is a kernel, or a function that is compiled to one when called."""
    kind = type(value)
    return kind.__name__ in _KINDS and kind.__module__.startswith("tileprof.lang")


def set_controls(controls: Mapping[str, Any]) -> tuple[str, ...]:
    """Give every kernel that is defined from now on these controls, whatever its author chose;
    return the names that this version has not."""
    from tileprof.compiler.cuda import controls as module

    known = {each.name for each in dataclasses.fields(module.Controls)}
    original: Any = module.controls_of
    values: dict[str, Any] = {n: _held(v) for n, v in controls.items() if n in known}

    def changed(given: Any) -> Any:
        return dataclasses.replace(original(given), **values)

    holders = [importlib.import_module(name) for name in _HOLDERS]
    found = [each for each in holders if hasattr(each, "controls_of")]
    if values and not found:
        raise Refused("this version of tileprof does not let controls be set from outside")
    for each in found:
        setattr(each, "controls_of", changed)  # noqa: B010 - the module only imports it
    return tuple(name for name in controls if name not in known)


def cases_of(name: str, found: Any, wanted: Wanted) -> list[Case]:
    """Return the case of a kernel of a file, with the values that are bound."""
    kernel = _compiled(found, wanted.values)
    traced = kernel.traced
    function = plain(found)
    return [_case(kernel.options, traced, function, wanted, lambda: _made(kernel, wanted))]


@contextmanager
def capturing(wanted: Wanted) -> Iterator[list[Case]]:
    """Collect a case for each kernel that is compiled inside, with the call that first did."""
    from tileprof.compiler.program import Program
    from tileprof.lang import jit_function

    cases: list[Case] = []
    seen: set[str] = set()
    calls: list[tuple[Any, Callable[[], Any]]] = []
    original = Program.__init__

    def initialised(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _note(self.traced, self.options, calls, cases, seen, wanted)

    replaced: list[tuple[type, Callable[..., Any]]] = []
    kinds: tuple[Any, ...] = (jit_function.JitFunction, jit_function.Kernel)
    for kind in kinds:
        called = kind.__call__
        replaced.append((kind, called))
        setattr(kind, "__call__", _watched(called, calls))  # noqa: B010
    setattr(Program, "__init__", initialised)  # noqa: B010
    try:
        yield cases
    finally:
        setattr(Program, "__init__", original)  # noqa: B010
        for kind, called in replaced:
            setattr(kind, "__call__", called)  # noqa: B010


def _watched(
    called: Callable[..., Any], calls: list[tuple[Any, Callable[[], Any]]]
) -> Callable[..., Any]:
    @functools.wraps(called)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append((self, functools.partial(called, self, *args, **kwargs)))
        try:
            return called(self, *args, **kwargs)
        finally:
            calls.pop()

    return wrapper


def _note(
    traced: Any, options: Any, calls: list[tuple[Any, Callable[[], Any]]], cases: list[Case],
    seen: set[str], wanted: Wanted,
) -> None:  # fmt: skip
    from tileprof import ir

    key = f"{ir.print_kernel(traced)}{options!r}"
    if key in seen:
        return
    seen.add(key)
    owner, call = calls[-1] if calls else (None, None)
    function = plain(owner) if owner is not None else None

    def made() -> Callable[[], Any]:
        if call is None:
            raise Refused(f"`{traced.name}` was compiled and not called")
        return call

    cases.append(_case(options, traced, function, wanted, made))


def _case(
    options: Any, traced: Any, function: Any, wanted: Wanted,
    call: Callable[[], Callable[[], Any]],
) -> Case:  # fmt: skip
    held = _Held(options, traced, function, wanted)
    return Case(traced.name, "tileprof", held.forms, call, held.resumed)


@dataclasses.dataclass(frozen=True)
class _Held:
    """A traced kernel, and how it is compiled."""

    options: Any
    traced: Any
    function: Any
    wanted: Wanted

    def forms(self, controls: Mapping[str, Any], passes: bool) -> dict[str, Any]:
        """Return every form of the kernel, from its source to its machine code."""
        from tileprof import ir

        used = dataclasses.replace(
            self.options.controls, **{n: _held(v) for n, v in controls.items()}
        )
        made: dict[str, Any] = {
            "source": source_of(self.function, self.wanted.folder) or _located(self.traced),
            "specialisation": _parameters(self.traced),
            "options": {f.name: str(getattr(used, f.name)) for f in dataclasses.fields(used)},
            "ir": [["frontend", ir.print_kernel(self.traced)]],
            "missing": "",
        }

        def observe(step: str, kernel: Any) -> None:
            if passes:
                made["ir"].append([step, ir.print_kernel(kernel)])

        kernel = _common(self.traced, observe)
        if self.wanted.target == "cpu":
            return _on_cpu(made, self.traced, kernel, self.options)
        return _on_cuda(made, kernel, self.wanted.target, used, observe)

    def resumed(self, step: str, text: str) -> dict[str, Any]:
        """Return the forms that come of the other side's program after a step, compiled here."""
        from tileprof import ir

        made: dict[str, Any] = {"ir": [], "missing": ""}

        def observe(name: str, kernel: Any) -> None:
            made["ir"].append([name, ir.print_kernel(kernel)])

        kernel = ir.parse(text)
        if self.wanted.target == "cpu":
            kernel = _common(kernel, observe, after=step)
            return _on_cpu(made, kernel, kernel, self.options)
        return _on_cuda(
            made, kernel, self.wanted.target, self.options.controls, observe, after=step
        )


def _located(traced: Any) -> str:
    """Return the lines of a kernel's function, as its program says where they are."""
    place: Any = getattr(traced, "location", None)
    if place is None:
        return ""
    lines = linecache.getlines(place.file)
    return "".join(lines[place.line - 1 : place.end_line or len(lines)])


def _common(kernel: Any, observe: Callable[[str, Any], None], after: str = "frontend") -> Any:
    """Run the passes that all devices share, from the one behind `after` on."""
    from tileprof.compiler import pipeline

    names = ["frontend", *(each.name for each in pipeline.PASSES)]
    for each in pipeline.PASSES[names.index(after) if after in names else len(names) :]:
        if each.name == "instrument":
            continue
        kernel = each.apply(kernel, pipeline.Options())
        observe(each.name, kernel)
    return kernel


def _on_cpu(made: dict[str, Any], traced: Any, kernel: Any, options: Any) -> dict[str, Any]:
    from tileprof.compiler.build import find_compiler
    from tileprof.compiler.program import Program

    made["code"] = [["C++", Program(traced, kernel, options).cpp.text]]
    compiler = find_compiler()
    made["flags"] = list(getattr(compiler, "flags", ()))
    made["tools"] = {"C++ compiler": _compiler_name(compiler)}
    return made


def _compiler_name(compiler: Any) -> str:
    for name in ("version", "identity", "path"):
        value = getattr(compiler, name, None)
        if isinstance(value, (str, os.PathLike)):
            return str(value)
    return ""


def _on_cuda(
    made: dict[str, Any], kernel: Any, target: str, controls: Any,
    observe: Callable[[str, Any], None], after: str = "",
) -> dict[str, Any]:  # fmt: skip
    from tileprof.compiler.cuda import build, nvrtc
    from tileprof.compiler.cuda import pipeline as lowering
    from tileprof.compiler.cuda.target import find_target

    chosen = find_target(target)
    passes = lowering.PASSES
    names = [each.name for each in passes]
    if after in names:
        setattr(lowering, "PASSES", passes[names.index(after) + 1 :])  # noqa: B010
    elif after:
        kernel = _common(kernel, observe, after)
    try:
        program = lowering.compile_cuda(kernel, chosen, controls, observe=observe)
    finally:
        setattr(lowering, "PASSES", passes)  # noqa: B010
    source = program.source
    made["code"] = [["CUDA C++", source.text], *([n, t] for n, t in source.headers)]
    limits: Any = getattr(build, "_limits", None)
    made["flags"] = [*getattr(build, "_FLAGS", ()), *(limits(controls) if limits else ())]
    made["launch"] = dict(
        pair for each in source.launches for pair in _launch(each, len(source.launches) > 1)
    )
    try:
        cubin = program.cubin
        made |= {"ptx": cubin.ptx, "cubin": cubin.bytes.hex(), "tools": {"NVRTC": nvrtc.identity()}}
    except Exception as error:
        if type(error).__name__ != "MissingDependencyError":
            raise
        made["missing"] = "NVRTC"
    return made


def _launch(spec: Any, named: bool) -> Iterator[tuple[str, str]]:
    grid = [getattr(getattr(v, "owner", None), "value", None) for v in spec.grid]
    facts: dict[str, Any] = {
        "grid": " x ".join("?" if extent is None else str(extent) for extent in grid),
        "threads": spec.threads,
        "dynamic shared bytes": spec.shared,
        "cluster": getattr(spec, "cluster", 1),
        "persistent blocks per SM": getattr(spec, "persistent", 0),
        "starts early": getattr(spec, "waits", False),
    }
    for name, value in facts.items():
        yield (f"{spec.function}: {name}" if named else name), str(value)


def _parameters(traced: Any) -> dict[str, str]:
    return {each.name: str(each.type) for each in traced.params}


def _held(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _compiled(found: Any, values: Mapping[str, Any]) -> Any:
    """Return the kernel with the values that it names bound."""
    import tileprof

    try:
        text = inspect.getsource(plain(found))
    except (OSError, TypeError):
        text = ""
    # A suite has one set of values for all of its kernels.
    used = {n: v for n, v in values.items() if not text or re.search(rf"\b{n}\b", text)}
    if type(found).__name__ == "JitFunction":
        return found.compile(**used)
    if type(found).__name__ == "PrimFunc":
        return tileprof.compile(found, extents=used)
    return found


def _made(kernel: Any, wanted: Wanted) -> Callable[[], Any]:
    """Return a call of a kernel with random arrays, and scalars from `--set`."""
    import numpy as np

    from tileprof import ir

    types = {each.name: each.type for each in kernel.traced.params}
    random = np.random.default_rng(wanted.seed)
    arguments = []
    for name in kernel.arguments:
        kind = types[name]
        unknown = [] if not isinstance(kind, ir.BufferType) else kind.shape
        for missing in [d for d in unknown if not isinstance(d, int)] or (
            [name] if not isinstance(kind, ir.BufferType) and name not in wanted.values else []
        ):
            raise Refused(f"`{kernel.__name__}` needs a value for `{missing}` to be timed",
                          f"Give it: --set {missing}=….")  # fmt: skip
        arguments.append(
            _array(kind, wanted, random) if isinstance(kind, ir.BufferType) else wanted.values[name]
        )
    if wanted.device.startswith("cuda"):
        return functools.partial(kernel, *arguments)
    from tileprof.runtime.selection import device as on_device

    def call() -> Any:
        with on_device(wanted.device):
            return kernel(*arguments)

    return call


def _array(kind: Any, wanted: Wanted, random: Any) -> Any:
    """Return normally distributed floats, or integers 0 and 1, which are valid as most indices."""
    import numpy as np

    shape = tuple(kind.shape)
    if not wanted.device.startswith("cuda"):
        values = (
            random.standard_normal(shape, np.float32)
            if kind.dtype.is_float
            else random.integers(0, 2, shape)
        )
        return values.astype(kind.dtype.to_numpy())
    torch: Any = importlib.import_module("torch")
    generator = torch.Generator(wanted.device).manual_seed(wanted.seed)
    names = {"float8_e4m3": "float8_e4m3fn", "index": "int64"}
    name = names.get(kind.dtype.name, kind.dtype.name)
    made = (
        torch.randn(shape, device=wanted.device, generator=generator)
        if kind.dtype.is_float
        else torch.randint(0, 2, shape, device=wanted.device, generator=generator)
    )
    return made.to(getattr(torch, name))
