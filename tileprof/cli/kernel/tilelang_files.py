"""Files that are written for TileLang, read as tileprof's: only their imports mean something else.

In: a Python file that imports `tilelang` and not `tileprof`.  Out: while it is loaded, `tilelang`
and its modules are tileprof's, whether TileLang is installed or not: `tilelang.language` is
`tileprof.lang`, `jit`, `compile` and `autotune` are tileprof's.  What TileLang has beside its
language and tileprof has not (timing, testing, configuration keys, parts of TVM) may be imported,
named and used as a decorator; it does nothing.  So do packages that such files compare with
(`COMPARED`), where they are not installed.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOTS = ("tilelang", "tvm")
"""Packages that TileLang brings."""
COMPARED = (
    "triton", "fla", "flash_attn", "flash_mla", "flashinfer", "bitblas", "aiter", "mamba_ssm",
    "einops",
)  # fmt: skip
"""Packages with which files compare their kernels, and which a look at a kernel does not need."""


def is_for_tilelang(file: Path) -> bool:
    """Return whether a file, or one of its package that it imports by a relative import, imports
    TileLang, and none imports tileprof; False for one that Python cannot read."""
    roots: set[str] = set()
    seen: set[Path] = set()
    left = [file]
    while left:
        path = left.pop()
        if path not in seen:
            seen.add(path)
            left += _imports(path, roots)
    return "tilelang" in roots and "tileprof" not in roots


def _imports(file: Path, roots: set[str]) -> list[Path]:
    """Add the packages that a file imports to `roots`; return its own package's files."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        # Python's parser says of text that nests too deeply that memory is short.
        return []
    beside: list[Path] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            roots.update(_root(each.name) for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            roots.add(_root(node.module or ""))
        elif isinstance(node, ast.ImportFrom):
            folder = file.resolve().parents[node.level - 1]
            base = folder.joinpath(*(node.module or "").split("."))
            beside += [base.with_suffix(".py"), *(base / f"{n.name}.py" for n in node.names)]
    return beside


@contextmanager
def tilelang_is_tileprof(folder: Path) -> Iterator[None]:
    """Have `tilelang` and `tvm` mean tileprof's modules inside, and files of `folder` do without
    packages of `COMPARED`; what was imported before comes back at the end."""
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if _root(name) in ROOTS}
    first, last = _Finder(ROOTS), _Finder(COMPARED, folder)
    sys.meta_path.insert(0, first)
    # Behind all others: what is installed is found before.
    sys.meta_path.append(last)
    try:
        yield
    finally:
        sys.meta_path.remove(first)
        sys.meta_path.remove(last)
        for name in [name for name, held in sys.modules.items() if isinstance(held, _Module)]:
            del sys.modules[name]
        sys.modules.update(before)


def _root(name: str) -> str:
    return name.partition(".")[0]


def _importer() -> str:
    """Return the file whose code imports something."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename == __file__ or "importlib" in frame.f_code.co_filename
    ):
        frame = frame.f_back
    return frame.f_code.co_filename


class Elsewhere:
    """Something of TileLang's that tileprof does not have."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Elsewhere(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the function that it decorates; any other call gives such a thing again."""
        decorates = len(args) == 1 and not kwargs and callable(args[0])
        return args[0] if decorates else Elsewhere(f"{self._name}(…)")

    def __getitem__(self, item: Any) -> Any:
        return self

    def __or__(self, other: Any) -> Any:
        """Return itself as the type that annotations write: `JITKernel | None`."""
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """Return no base classes: a class that inherits from it is a plain one."""
        return ()

    def __repr__(self) -> str:
        return f"<{self._name}, which tileprof does not have>"


class _Module(types.ModuleType):
    """A module of TileLang: names of the language and of tileprof, by whatever path.  One of
    another package has nothing."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__file__ = __file__
        import tileprof
        from tileprof import lang

        self.__version__ = tileprof.__version__
        self._lang = lang
        self._names: dict[str, Any] = {}
        if name == "tilelang.language":
            self._names = {each: getattr(lang, each) for each in lang.__all__}
        elif _root(name) == "tilelang":
            self._names = {"jit": lang.jit, "compile": lang.compile, "autotune": tileprof.autotune}
            if name == "tilelang.autotuner":
                self._names["jit"] = jit_of_tuner
        self.__all__ = list(self._names)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._names:
            return self._names[name]
        from tileprof.lang.context import active

        if (module := sys.modules.get(f"{self.__name__}.{name}")) is not None:
            return module
        if self.__name__ == "tilelang.language" and active() is not None:
            # A kernel uses it: the language's error names what is near.
            return getattr(self._lang, name)
        if _root(self.__name__) == "tilelang":
            if name == "language":
                return self._lang
            if name in _OWN:
                return _OWN[name]
            if name in self._lang.__all__:
                return getattr(self._lang, name)
        return Elsewhere(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function that the module is named after: `tilelang.jit` is both."""
        return self._names[_last(self.__name__)](*args, **kwargs)


_OF_TUNER = (
    "supply_type", "supply_prog", "ref_prog", "rtol", "atol", "max_mismatched_ratio", "skip_check",
    "cache_input_tensors", "profiler",
)  # fmt: skip
"""Keywords of the `jit` that older versions of TileLang have in `tilelang.autotuner`: they say how
configurations are timed and checked."""


def jit_of_tuner(*args: Any, **options: Any) -> Any:
    """Apply `tileprof.jit` without the keywords that only a tuner takes."""
    from tileprof.lang import jit

    return jit(*args, **{name: held for name, held in options.items() if name not in _OF_TUNER})


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _power_of_two(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()


_OWN: dict[str, Any] = {
    "cdiv": lambda number, by: -(-number // by),
    "next_power_of_2": _power_of_two,
}
"""Small functions of TileLang's that kernels' sizes are computed with."""


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of some packages, each when it is imported; for files of `folder` only, if given."""

    def __init__(self, roots: Sequence[str], folder: Path | None = None) -> None:
        self._roots = roots
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a specification for each of their names."""
        if _root(fullname) not in self._roots:
            return None
        if self._folder is not None and self._folder not in Path(_importer()).resolve().parents:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return a module that finds its names in tileprof."""
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""
