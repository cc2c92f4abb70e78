"""A kernel that a command line names: FILE:KERNEL, and what `--set` binds of it.

In: text from the command line.  Out: a traced kernel; or an error that says what the file holds,
what is not bound yet, or where the file itself is wrong.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tileprof.errors import KernelError, Location, TileprofError, UsageError, suggestion

if TYPE_CHECKING:
    from tileprof import ir
    from tileprof.lang.functions import PrimFunc
    from tileprof.lang.jit_function import JitFunction, Kernel

    Compilable: TypeAlias = JitFunction | PrimFunc | Kernel

_MODULE = "__compiled__"
"""The name of a file that is read for its kernels; like a script's, it is no module's."""
_IN_PYTHON = re.compile(r"`[\w.]+\.compile\((\w+)=…\)`")


_MISSING = "Install the module in this environment, or add its folder to PYTHONPATH."
_RUNS = 'What runs the kernel belongs under `if __name__ == "__main__":`.'


def find(place: str) -> Compilable:
    """Return the kernel that `FILE:KERNEL` names; UsageError lists what the file holds."""
    path, _, name = place.rpartition(":")
    if not path or not name:
        raise UsageError(f"`{place}` is not FILE:KERNEL", hint="For example matmul.py:matmul.")
    file = Path(path)
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise UsageError(f"{path} {what}", hint="FILE is a Python file that defines the kernel.")
    members = _load(file)
    kernels = {n: v for n, v in members.items() if _is_kernel(v)}
    if name in kernels:
        kernel: Compilable = kernels[name]
        return kernel
    known = f"Its kernels are: {', '.join(sorted(kernels))}." if kernels else "It has no kernels."
    raise UsageError(f"{path} has no kernel `{name}`", hint=suggestion(name, kernels) + known)


def _is_kernel(value: Any) -> bool:
    from tileprof.lang.functions import PrimFunc
    from tileprof.lang.jit_function import JitFunction, Kernel

    return isinstance(value, JitFunction | PrimFunc | Kernel)


def _load(file: Path) -> Mapping[str, Any]:
    """Run the file as an import does and return what it defines; its output goes to standard
    error."""
    spec = importlib.util.spec_from_file_location(_MODULE, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} is not a Python file", hint="Its name has to end in .py.")
    module = importlib.util.module_from_spec(spec)
    # As under `python FILE`: its folder is where its imports are found.
    sys.path.insert(0, str(file.parent.resolve()))
    sys.modules[_MODULE] = module
    try:
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (TileprofError, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        raise KernelError(f"Python cannot read it: {error.msg}", location=_written(error)) from None
    except BaseException as error:
        raise KernelError(
            f"the file cannot be imported: {_said(error)}",
            location=_last_place(error, str(file.absolute())),
            hint=_MISSING if isinstance(error, ModuleNotFoundError) else _RUNS,
        ) from None
    return vars(module)


def _written(error: SyntaxError) -> Location:
    start = max((error.offset or 1) - 1, 0)
    end = max((error.end_offset or 0) - 1, start + 1)
    return Location(error.filename or "", error.lineno or 1, start, error.end_lineno or 0, end)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def _last_place(error: BaseException, file: str) -> Location | None:
    """Return the innermost line of a file that an error came through."""
    places = traceback.extract_tb(error.__traceback__)
    lines = [p.lineno for p in places if p.filename == file and p.lineno]
    return Location(file, lines[-1]) if lines else None


def check_target(name: str) -> None:
    """Raise `UsageError` where kernels cannot be compiled for a target of that name."""
    from tileprof.compiler.cuda.target import TARGETS

    known = ("cpu", *TARGETS)
    if name not in known:
        targets = f"Targets are: {', '.join(known)}."
        raise UsageError(f"there is no target `{name}`", hint=suggestion(name, known) + targets)


def bindings(texts: Iterable[str]) -> dict[str, Any]:
    """Return the values of `--set NAME=VALUE`: Python literals, and any other text as itself."""
    found: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.isidentifier():
            raise UsageError(f"`--set {text}` is not NAME=VALUE", hint="For example --set M=1024.")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found


def traced(kernel: Compilable, values: Mapping[str, Any]) -> ir.Kernel:
    """Return the program with these values bound; the error for a missing one names the `--set`."""
    try:
        return _bound(kernel, values).traced
    except TileprofError as error:
        hint = _IN_PYTHON.sub(r"`--set \1=…`", error.hint)
        if hint == error.hint:
            raise
        raise UsageError(error.message, location=error.location, hint=hint) from None
    except Exception as error:
        # Python that runs while the kernel is traced is the author's, and so are its errors.
        place = _last_place(error, _file_of(kernel))
        if place is None:
            raise
        raise KernelError(f"the kernel cannot be traced: {_said(error)}", location=place) from None


def _bound(kernel: Compilable, values: Mapping[str, Any]) -> Kernel:
    from tileprof.lang import compile
    from tileprof.lang.functions import PrimFunc
    from tileprof.lang.jit_function import Kernel

    if isinstance(kernel, Kernel):
        if values:
            raise UsageError(
                f"`{kernel.__name__}` is already compiled: --set has nothing to bind",
                hint="Leave out --set.",
            )
        return kernel
    for name in values.keys() - kernel.signature.parameters.keys():
        _check_extent(name, values[name])
    if isinstance(kernel, PrimFunc):
        return compile(kernel, extents=values)
    _check_factory(kernel, values)
    return kernel.compile(**values)


def _file_of(kernel: Compilable) -> str:
    code = getattr(getattr(kernel, "function", None), "__code__", None)
    return code.co_filename if code else ""


def _check_extent(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UsageError(
            f"`--set {name}={value}` is not a valid extent",
            hint="Extents are whole numbers, 0 or greater.",
        )


def _check_factory(kernel: JitFunction, values: Mapping[str, Any]) -> None:
    """A function that makes kernels is called with its arguments, so each needs a value."""
    if not kernel.lazy:
        return
    parameters = kernel.signature.parameters.values()
    missing = [p.name for p in parameters if p.default is p.empty and p.name not in values]
    if missing:
        raise UsageError(
            f"`{kernel.__name__}` needs a value for {', '.join(f'`{n}`' for n in missing)}",
            location=kernel.location,
            hint=f"Give it: {' '.join(f'--set {n}=…' for n in missing)}",
        )
