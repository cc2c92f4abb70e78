"""One example of TileLang, executed by tileprof or by TileLang, and the launches that it made.

In: a file of a checkout and a run of `examples_cases`.  Out: a `Side`: for each kernel its first
launch, which can be repeated, the tensors that it wrote, and what the example's own comparisons
gave.  For tileprof the names `tilelang` and `tvm` stand for the modules of `tilelang_host`, which
is what changing the import lines does; for TileLang they are TileLang's.

Sizes of an example that are literals of its driver may be replaced.  Timing loops of examples are
not run, and `autotune` takes the first configuration on both sides.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import io
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import tilelang_host as host
import torch
from examples_cases.form import Run
from examples_inputs import call, supply
from examples_launches import watching
from examples_references import REFERENCES, chunk_gates
from examples_results import Check, Side
from examples_turns import Turn

__all__ = ["run_side", "tilelang_version"]

_ROOTS = ("tilelang", "tvm")


@functools.cache
def tilelang_version() -> str:
    """Return the version of TileLang, '' where it cannot be imported."""
    try:
        return str(importlib.import_module("tilelang").__version__)
    except ImportError:
        return ""


def run_side(
    name: str,
    checkout: Path,
    path: str,
    run: Run,
    turn: Turn,
    written: Sequence[tuple[int, ...]] = (),
    fake: bool = False,
) -> Side:
    """Run an example as `tileprof` or as `tilelang`; the GPU is ours except while compiling."""
    side = Side(name, written=list(written), dry=fake)
    if name == "tilelang":
        tilelang_version()
    file = checkout / "examples" / path
    with contextlib.ExitStack() as stack:
        for context in (
            _modules(name),
            watching(side, turn, fake),
            _driver(side, fake),
            _argv(file),
            contextlib.redirect_stdout(io.StringIO()),
            turn,
        ):
            stack.enter_context(context)
        torch.manual_seed(0)
        try:
            _execute(side, file, run)
        except BaseException as error:
            # An assertion of the example, or anything else: what was launched until then counts.
            side.error = _line(error)
            side.checks += [Check(False, side.error)] if isinstance(error, AssertionError) else []
            if not side.launches or not isinstance(error, AssertionError):
                traceback.print_exc()
        finally:
            torch.set_default_dtype(torch.float32)
    return side


def _line(error: BaseException) -> str:
    text = getattr(error, "message", None) or str(error).strip() or type(error).__name__
    at = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(at.filename).name}:{at.lineno}"
    return f"{type(error).__name__}: {text.splitlines()[0][:200]} ({where})"


def _execute(side: Side, file: Path, run: Run) -> None:
    module = types.ModuleType(file.stem)
    module.__file__ = str(file)
    sys.modules[module.__name__] = module
    tree = _with_sizes(ast.parse(file.read_text()), run.constants)
    exec(compile(tree, str(file), "exec", dont_inherit=True), module.__dict__)
    made: dict[str, Any] = {
        "supply": supply,
        "call": functools.partial(call, side=side),
        "l2norm": _l2norm,
        "chunk_gates": chunk_gates,
        "torch": torch,
        **REFERENCES,
    }
    for each, value in made.items():
        module.__dict__.setdefault(each, value)
    exec(compile(run.code, "<run>", "exec", dont_inherit=True), module.__dict__)


def _l2norm(x: torch.Tensor) -> tuple[torch.Tensor, None]:
    return torch.nn.functional.normalize(x.detach().float(), dim=-1).to(x.dtype), None


class _Sizes(ast.NodeTransformer):
    """New values for names that are set to literals, outside of kernels."""

    def __init__(self, sizes: Mapping[str, Any]) -> None:
        self.sizes = sizes

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Skip kernels: what is decorated."""
        return node if node.decorator_list else self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """`M = 1024` and `M, N = 1024, 512`."""
        target = node.targets[0]
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        if len(names) != len(values):
            return node
        for at, (name, value) in enumerate(zip(names, values)):
            wanted = self.sizes.get(name.id) if isinstance(name, ast.Name) else None
            if wanted is not None and isinstance(value, ast.Constant):
                values[at] = ast.copy_location(ast.Constant(wanted), value)
        if not isinstance(node.value, ast.Tuple):
            node.value = values[0]
        return node


def _with_sizes(tree: ast.Module, sizes: Mapping[str, Any]) -> ast.Module:
    return _Sizes(sizes).visit(tree) if sizes else tree


# -- which modules the names stand for


@contextlib.contextmanager
def _modules(name: str) -> Iterator[None]:
    """`tilelang` and `tvm` are tileprof's stand-ins inside, where the name is tileprof."""
    if name != "tileprof":
        _foreign()
        yield
        return
    held = {n: m for n, m in sys.modules.items() if _is_replaced(n, m)}
    finders = list(sys.meta_path)
    for each in [n for n in held if n.partition(".")[0] in _ROOTS]:
        del sys.modules[each]
    host.install()
    try:
        yield
    finally:
        # Packages that examples compare their results with have stand-ins, too, which no other code
        # may find.
        sys.meta_path[:] = finders
        for each in [n for n, m in sys.modules.items() if _is_replaced(n, m)]:
            del sys.modules[each]
        sys.modules.update(held)


def _is_replaced(name: str, module: Any) -> bool:
    """Return whether a module belongs to one side only.

    A package that is installed belongs to both: extension modules, as those of Triton, cannot be
    loaded a second time.
    """
    return name.partition(".")[0] in _ROOTS or host.stands_in(module)


@functools.cache
def _foreign() -> None:
    """Let packages be imported that examples compare with and that are not here."""
    sys.meta_path.append(host._Finder())


@contextlib.contextmanager
def _argv(file: Path) -> Iterator[None]:
    """The example's own folder is searched first; its modules are gone afterwards."""
    before, path = sys.argv, list(sys.path)
    sys.argv = [str(file)]
    sys.path.insert(0, str(file.parent))
    root = str(file.parent.parent)
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before, path
        for each, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(root):
                del sys.modules[each]


# -- what examples compare, and how they time


@contextlib.contextmanager
def _driver(side: Side, fake: bool) -> Iterator[None]:
    """Comparisons are kept, and do not end the example."""

    def kept(function: Callable[..., Any]) -> Callable[..., Any]:
        def compare(*args: Any, **kwargs: Any) -> Any:
            if fake:
                return True
            try:
                made = function(*args, **kwargs)
            except AssertionError as error:
                text = str(error).strip().splitlines()
                side.checks.append(Check(False, " ".join(text[:4])[:200]))
                return None
            side.checks.append(Check(made is None or bool(made)))
            return True if made is not None else None

        return compare

    def compare(one: Any, other: Any, rtol: float = 1e-2, atol: float = 1e-2, **rest: Any) -> None:
        if fake:
            return
        allowed = rest.get("max_mismatched_ratio", 0.001)
        wrong = ~torch.isclose(one, other, rtol=rtol, atol=atol, equal_nan=True)
        share = float(wrong.float().mean())
        side.checks.append(Check(share <= allowed, f"{share:.2%} of the elements differ"))

    patches = [
        (torch.testing, "assert_close", kept(torch.testing.assert_close)),
        (torch, "allclose", kept(torch.allclose)),
    ]
    for module in ("utils.tensor", "testing", "profiler"):
        found = sys.modules.get(f"tilelang.{module}")
        if found is not None and isinstance(found, types.ModuleType):
            patches.append((found, "torch_assert_close", compare))
    with contextlib.ExitStack() as stack:
        for owner, attribute, new in patches:
            stack.enter_context(mock.patch.object(owner, attribute, new, create=True))
        stack.enter_context(mock.patch.object(host, "compare", compare))
        yield
