"""A kernel that a command line names: FILE:KERNEL, and what `--set` binds of it.

In: text from the command line.  Out: a traced kernel; or an error that says what the file holds,
what is not bound yet, or where the file itself is wrong.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from tileprof.errors import (
    KernelError,
    Location,
    TileprofError,
    UsageError,
    last_line,
    said,
    suggestion,
)

from .tilelang_files import is_for_tilelang, tilelang_is_tileprof

if TYPE_CHECKING:
    from tileprof import ir
    from tileprof.lang.functions import PrimFunc
    from tileprof.lang.jit_function import JitFunction, Kernel

    Compilable: TypeAlias = JitFunction | PrimFunc | Kernel

_MODULE = "__compiled__"
"""The name of a file that is read for its kernels; like a script's, it is no module's."""
_IN_PYTHON = re.compile(r"`[\w.]+\.compile\((\w+)=…\)`")


_MISSING = "Install the module in this environment, or add its folder to PYTHONPATH."
_RELATIVE = "Relative imports need an `__init__.py` in the file's folder, which makes it a package."
_RUNS = 'What runs the kernel belongs under `if __name__ == "__main__":`.'


def find(place: str) -> Compilable:
    """Return the kernel that `FILE:KERNEL` names; UsageError lists what the file holds.  In a file
    that is written for TileLang, `tilelang` means tileprof."""
    file, name = _parted(place, "KERNEL")
    with _means_tileprof(file):
        members = {key: _as_kernel(value) for key, value in _load(file).items()}
    found: Compilable = _member(file, name, members, is_kernel, "kernel")
    return found


def _means_tileprof(file: Path) -> contextlib.AbstractContextManager[None]:
    """Return the context in which `tilelang` means tileprof, if the file is written for it."""
    if is_for_tilelang(file):
        return tilelang_is_tileprof(file.parent.resolve())
    return contextlib.nullcontext()


def _as_kernel(value: Any) -> Any:
    """Return a plain function that makes a `prim_func` as the kernel factory that it is, also one
    under `functools.cache`; anything else as itself."""
    if isinstance(value, functools._lru_cache_wrapper):
        value = value.__wrapped__
    if not inspect.isfunction(value):
        return value
    from tileprof.lang import jit

    made = jit(value)
    return made if made.lazy else value


def find_callables(*places: str) -> list[Callable[..., Any]]:
    """Return the functions or kernels that `FILE:FUNCTION`s name, of separate copies of modules.

    A file beside one of the first is not mistaken for one of the same name beside the second:
    modules of a file's folder are forgotten before the next file is loaded.
    """
    found, loaded = [], dict[Path, Mapping[str, Any]]()
    for place in places:
        file, name = _parted(place, "FUNCTION")
        if (known := file.resolve()) not in loaded:
            for other in loaded:
                _forget_modules(other.parent, known.parent)
            loaded[known] = _load(file, f"{_MODULE}{len(loaded) or ''}")
        found.append(_member(file, name, loaded[known], callable, "function"))
    return found


def _forget_modules(folder: Path, next_folder: Path) -> None:
    """Forget modules that were found in a folder because a file there was loaded."""
    if folder == next_folder:
        return
    sys.path[:] = [each for each in sys.path if each != str(folder)]
    for name, module in list(sys.modules.items()):
        place = folder.joinpath(*name.split("."))
        file = getattr(module, "__file__", None) or ""
        if file in (f"{place}.py", f"{place / '__init__.py'}"):
            del sys.modules[name]


def _parted(place: str, what: str) -> tuple[Path, str]:
    """Return file and name; no name for a Python file alone, whose names an error then lists."""
    path, _, name = place.rpartition(":")
    if place.endswith(".py") and Path(place).is_file():
        return Path(place), ""
    if not path or not name:
        raise UsageError(f"`{place}` is not FILE:{what}", hint="For example matmul.py:matmul.")
    file = Path(path)
    if not file.is_file():
        state = "is a folder" if file.is_dir() else "does not exist"
        raise UsageError(
            f"{path} {state}", hint=f"FILE is a Python file that defines the {what.lower()}."
        )
    return file, name


def _member(
    file: Path, name: str, members: Mapping[str, Any], is_one: Callable[[Any], bool], what: str
) -> Any:
    if name in members and is_one(members[name]):
        return members[name]
    if hasattr(members.get(name), "prune_configs"):
        raise UsageError(
            f"`{name}` of {file} is an autotuner of Triton, and tunes itself when it is called",
            hint="Put @tileprof.triton_pruner() above it, or run the program that calls it under"
            " `tileprof run --prune-triton`: then few configurations are timed.",
        )
    known = sorted(
        n
        for n, v in members.items()
        if is_kernel(v) or (what == "function" and inspect.isfunction(v) and not n.startswith("_"))
    )
    if not name and known:
        held = f"Choose {', '.join(f'{file}:{each}' for each in known)}."
        raise UsageError(f"`{file}` is not FILE:{what.upper()}", hint=held)
    held = f"Its {what}s are: {', '.join(known)}." if known else f"It has no {what}s."
    raise UsageError(f"{file} has no {what} `{name}`", hint=suggestion(name, known) + held)


def is_kernel(value: Any) -> TypeGuard[Compilable]:
    """Return whether a value is a kernel of tileprof."""
    from tileprof.lang.functions import PrimFunc
    from tileprof.lang.jit_function import JitFunction, Kernel

    return isinstance(value, JitFunction | PrimFunc | Kernel)


def _load(file: Path, name: str = _MODULE) -> Mapping[str, Any]:
    """Run the file as an import does and return what it defines; its output goes to standard
    error."""
    root, package = _package_of(file.resolve())
    name = f"{package}.{name}" if package else name
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} is not a Python file", hint="Its name has to end in .py.")
    module = importlib.util.module_from_spec(spec)
    # As under `python FILE`: its folder is where its imports are found; or that of its package.
    sys.path.insert(0, str(root))
    sys.modules[name] = module
    try:
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (TileprofError, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        raise KernelError(f"Python cannot read it: {error.msg}", location=_written(error)) from None
    except BaseException as error:
        raise KernelError(
            f"the file cannot be imported: {said(error)}",
            location=last_line(error, str(file.absolute())),
            hint=_way_out(error),
        ) from None
    return vars(module)


def _package_of(file: Path) -> tuple[Path, str]:
    """Return the folder in which a file's package is found, and the package's dotted name: empty
    for a file that is in none."""
    folder, names = file.parent, list[str]()
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        names.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(names)


def _way_out(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return _MISSING
    if isinstance(error, ImportError) and "relative import" in str(error):
        return _RELATIVE
    return _RUNS


def _written(error: SyntaxError) -> Location:
    start = max((error.offset or 1) - 1, 0)
    end = max((error.end_offset or 0) - 1, start + 1)
    return Location(error.filename or "", error.lineno or 1, start, error.end_lineno or 0, end)


def check_target(name: str) -> None:
    """Raise `UsageError` where kernels cannot be compiled for a target of that name."""
    from tileprof.compiler.cuda.target import TARGETS

    known = ("cpu", *TARGETS)
    if name not in known:
        targets = f"Targets are: {', '.join(known)}."
        raise UsageError(f"there is no target `{name}`", hint=suggestion(name, known) + targets)


def add_bindings(parser: argparse.ArgumentParser, told: str) -> None:
    """Add `--set`, whose texts `bindings` reads; `told` is its help."""
    parser.add_argument(
        "--set",
        dest="bindings",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=told,
    )


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
    return compiled(kernel, values).traced


def compiled(kernel: Compilable, values: Mapping[str, Any]) -> Kernel:
    """Return the traced kernel with these values bound; errors as of `traced`."""
    try:
        # Factories may import what they need when they are called.
        with _means_tileprof(Path(_file_of(kernel))):
            found = _bound(kernel, values)
            _ = found.traced
        return found
    except TileprofError as error:
        hint = _IN_PYTHON.sub(r"`--set \1=…`", error.hint)
        if hint == error.hint:
            raise
        raise UsageError(error.message, location=error.location, hint=hint) from None
    except Exception as error:
        # Python that runs while the kernel is traced is the author's, and so are its errors.
        place = last_line(error, _file_of(kernel))
        if place is None:
            raise
        raise KernelError(f"the kernel cannot be traced: {said(error)}", location=place) from None


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
