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
import math
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import tilelang_host as host
import torch
from examples_cases import Run, Verdict
from examples_references import REFERENCES, chunk_gates
from examples_turns import Turn

__all__ = ["AGREES", "Check", "Launch", "Side", "difference", "run_side", "tilelang_version"]

AGREES = 2e-2
"""Largest relative difference of two results that agree, in the Frobenius norm."""

_ROOTS = ("tilelang", "tvm")
_MAX_KERNELS = 12
"""Kernels of one run whose launches are kept."""


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison of the example."""

    passed: bool
    detail: str = ""


@dataclass(slots=True)
class Launch:
    """The first launch of one kernel."""

    kernel: str
    again: Callable[[], Any]
    """Launches it again, on the same arguments."""
    results: tuple[Any, ...]
    """Copies of what it returned and of what it wrote, made right after it."""
    variant: Any = None
    """tileprof's variant; None for TileLang."""


@dataclass(slots=True)
class Side:
    """Launches, comparisons and errors of an example on one side."""

    name: str
    launches: list[Launch] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    error: str = ""
    """Why the example ended before its end, '' where it did not."""
    written: list[tuple[int, ...]] = field(default_factory=list)
    """For each kernel, the tensor arguments that it writes."""
    seen: set[int] = field(default_factory=set)
    dry: bool = False
    """Whether nothing is launched, so that there is nothing to compare."""

    def verdict(self, asserts: bool) -> Verdict:
        """Return what the comparisons say; `asserts`: the example compares by `assert`."""
        if not all(check.passed for check in self.checks):
            return Verdict.WRONG
        compared = bool(self.checks) or asserts
        return Verdict.RIGHT if compared and not self.error else Verdict.UNKNOWN

    def saw(
        self,
        identity: Any,
        kernel: str,
        args: Sequence[Any],
        written: Sequence[int] | None,
        launch: Callable[[], Any],
    ) -> Any:
        """Launch, and keep the launch where it is the first of its kernel."""
        if id(identity) in self.seen or len(self.launches) >= _MAX_KERNELS:
            return launch()
        self.seen.add(id(identity))
        if written is not None:
            self.written.append(tuple(written))
        made = launch()
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        changed = dict(enumerate(self.written)).get(len(self.launches), ())
        out = [*_flat(made), *(tensors[at] for at in changed if at < len(tensors))]
        copies = tuple(x.detach().clone() if isinstance(x, torch.Tensor) else x for x in out)
        self.launches.append(Launch(kernel, launch, copies, identity))
        return made


def _flat(made: Any) -> list[Any]:
    if isinstance(made, (tuple, list)):
        return list(made)
    return [] if made is None else [made]


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
            _watching(side, turn, fake),
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


def _no_timing(side: Side) -> Callable[..., float]:
    """`do_bench` that calls what is timed only where nothing was launched before."""

    def do_bench(function: Any = None, *args: Any, **kwargs: Any) -> float:
        if callable(function) and not side.launches:
            function()
        return 1.0

    return do_bench


# -- random arguments


_DECAYS = ("g", "gk", "gate", "da_cumsum")
"""Parameters whose exponential is taken: small negative numbers, or it is infinite."""


def supply(kernel: Any, **given: Any) -> list[Any]:
    """Return random arguments for a compiled kernel.

    `given` makes some of them from their extents.  A gate is a small negative number.
    """
    made = []
    for name, shape, kind in _inputs(kernel):
        if name in given:
            made.append(given[name](*shape) if callable(given[name]) else given[name])
        elif name.lower() in _DECAYS:
            made.append((torch.rand(shape, device="cuda") * -0.1).to(kind))
        elif kind.is_floating_point:
            # Scaled so that sums over 128 products are of the size of 1.
            size = 0.3 if len(shape) > 2 else 1.0
            made.append((torch.randn(shape, device="cuda") * size).to(kind))
        elif kind == torch.bool:
            made.append(torch.rand(shape, device="cuda") > 0.5)
        else:
            low, high = (0, 100) if kind == torch.uint8 else (-2, 3)
            made.append(torch.randint(low, high, shape, device="cuda").to(kind))
    return made


def call(
    kernel: Any,
    against: Callable[..., Sequence[torch.Tensor]] | None = None,
    side: Side | None = None,
    **given: Any,
) -> Any:
    """Run a compiled kernel on random arguments; the side's comparison is `against` a reference,
    which takes the same arguments."""
    inputs = supply(kernel, **given)
    made = kernel(*inputs)
    if against is not None and side is not None and not side.dry:
        side.checks.append(_check(_flat(made), against(*inputs), str(against.__name__)))
    return made


PARTS = 64
"""Parts of a result along its second dimension, each compared on its own: one of many chunks
that is wrong shows too."""


def _worst_part(got: torch.Tensor, want: torch.Tensor) -> float:
    if got.shape != want.shape or got.dim() < 2:
        return _apart(got, want)
    count = min(got.shape[1], PARTS)
    return max(map(_apart, got.tensor_split(count, 1), want.tensor_split(count, 1)))


def _check(results: Sequence[Any], wanted: Sequence[torch.Tensor], name: str) -> Check:
    """Compare all results with those of a reference, which have to be finite."""
    if not all(bool(torch.isfinite(each).all()) for each in wanted):
        return Check(False, f"`{name}` overflows on these inputs")
    apart = [_worst_part(got, want) for got, want in zip(results, wanted, strict=True)]
    text = ", ".join(f"{each:.2g}" for each in apart)
    return Check(max(apart) <= AGREES, f"differs from `{name}` by {text}")


def _l2norm(x: torch.Tensor) -> tuple[torch.Tensor, None]:
    return torch.nn.functional.normalize(x.detach().float(), dim=-1).to(x.dtype), None


def _torch_dtype(name: str) -> torch.dtype:
    return getattr(torch, {"float8_e4m3": "float8_e4m3fn"}.get(name, name))  # type: ignore[no-any-return]


def _inputs(kernel: Any) -> list[tuple[str, tuple[int, ...], torch.dtype]]:
    """Name, extents and element type of each argument."""
    if hasattr(kernel, "traced"):
        found = []
        for param in kernel.traced.params:
            if param.role == "in":
                kind = _torch_dtype(param.type.dtype.name)
                found.append((param.name, tuple(param.type.static_shape), kind))
        return found
    outputs = {i % len(kernel.params) for i in _flat(kernel.out_idx)}
    names = [str(v.name).removesuffix("_handle") for v in kernel.prim_func.params]
    return [
        (name, tuple(int(d) for d in param.shape), param.torch_dtype())
        for at, (name, param) in enumerate(zip(names, kernel.params))
        if at not in outputs
    ]


class Profiler:
    """`kernel.get_profiler()` of both sides: one call, compared with the reference."""

    def __init__(self, kernel: Any, side: Side) -> None:
        self.kernel, self.side = kernel, side
        self.func = kernel

    def do_bench(self, *args: Any, **kwargs: Any) -> float:
        """Run the kernel where nothing was run before."""
        if not args and not self.side.launches:
            call(self.kernel)
        return 1.0

    def run_once(self) -> Any:
        """Call the kernel once on random inputs."""
        return self.kernel(*supply(self.kernel))

    def assert_allclose(
        self, reference: Callable[..., Any], rtol: float = 1e-2, atol: float = 1e-2, **rest: Any
    ) -> None:
        """Run the kernel and the reference on one set of inputs."""
        inputs = supply(self.kernel)
        results = _flat(self.kernel(*inputs))
        expected = _flat(reference(*inputs))
        for got, want in zip(results, expected):
            host.compare(got.float(), want.float(), rtol=rtol, atol=atol,
                         max_mismatched_ratio=rest.get("max_mismatched_ratio", 0.01))  # fmt: skip

    def assert_consistent(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: every kernel is run many times anyway."""


# -- launches


@contextlib.contextmanager
def _watching(side: Side, turn: Turn, fake: bool) -> Iterator[None]:
    with contextlib.ExitStack() as change:

        def put(owner: Any, name: str, new: Any, create: bool = False) -> None:
            change.enter_context(mock.patch.object(owner, name, new, create=create))

        if side.name == "tileprof":
            _watch_tileprof(side, turn, put, fake)
        else:
            _watch_tilelang(side, turn, put, fake)
        yield


def _released(function: Callable[..., Any], turn: Turn) -> Callable[..., Any]:
    """Let others have the GPU while this runs: it compiles."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with turn.released():
            return function(*args, **kwargs)

    return run


def _watch_tileprof(side: Side, turn: Turn, put: Callable[..., None], fake: bool) -> None:
    from tileprof.lang import calls
    from tileprof.lang.calls import Plan, Variant
    from tileprof.lang.jit_function import JitFunction, Kernel
    from tileprof.runtime.device import written_params

    run = Plan.run

    def launched(plan: Any, args: Sequence[Any], warm: Any = None, given: Any = ()) -> Any:
        kernel = plan.variant.traced.kernel
        tensors = [at for at, a in enumerate(args) if isinstance(a, torch.Tensor)]
        sources = [plan.sources[at] for at in written_params(kernel)]
        written = [tensors.index(at) for at in sources if at in tensors]
        launch = functools.partial(_fake if fake else run, plan, args)
        return side.saw(plan.variant, kernel.name, args, written, launch)

    def _fake(plan: Any, args: Sequence[Any]) -> Any:
        _, shapes = plan.ready or plan._settle(args)
        kinds = [_torch_dtype(p.type.dtype.name) for _, p in plan.outputs]
        place = next(a.device for a in args if isinstance(a, torch.Tensor))
        made = [torch.empty(s, dtype=k, device=place) for s, k in zip(shapes, kinds)]
        kept = dict(zip((at for at, _ in plan.outputs), made))
        found = tuple(kept[at] for at in plan.returned if at in kept)
        return found[0] if len(found) == 1 else found or None

    # Examples pass tensors that require gradients, of which TileLang takes no notice.
    put(calls, "_refuse_gradient", lambda *_: None)
    for owner, method in (
        (JitFunction, "_plan"), (JitFunction, "_factory"), (JitFunction, "_compile"),
        (Kernel, "_new_plan"),
    ):  # fmt: skip
        put(owner, method, _released(getattr(owner, method), turn))
    put(Plan, "run", launched)
    if fake:
        put(Variant, "loaded", lambda *given: types.SimpleNamespace(device=given[1]))
    put(host, "do_bench", _no_timing(side))
    bench = sys.modules["tilelang.profiler"]
    bench._names["do_bench"] = _no_timing(side)  # type: ignore[attr-defined]
    Kernel.get_profiler = lambda kernel, *a, **k: Profiler(kernel, side)  # type: ignore[attr-defined]


def _watch_tilelang(side: Side, turn: Turn, put: Callable[..., None], fake: bool) -> None:
    jit = importlib.import_module("tilelang.jit")
    kernel_class = importlib.import_module("tilelang.jit.kernel").JITKernel
    profiler = importlib.import_module("tilelang.profiler")
    tuner = importlib.import_module("tilelang.autotuner")
    whole = importlib.import_module("tilelang")

    def launched(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        name = str(kernel.prim_func.attrs["global_symbol"])
        launch = functools.partial(kernel.torch_function, *args, **kwargs)
        if fake:
            place = next(a.device for a in args if isinstance(a, torch.Tensor))
            launch = functools.partial(_fake, kernel, place)
        return side.saw(kernel, name, [*args, *kwargs.values()], None, launch)

    def _fake(kernel: Any, place: torch.device) -> Any:
        outputs = sorted({i % len(kernel.params) for i in _flat(kernel.out_idx)})
        made = []
        for at in outputs:
            shape = [d if isinstance(d, int) else 1 for d in kernel.params[at].shape]
            made.append(torch.empty(shape, dtype=kernel.params[at].torch_dtype(), device=place))
        return made[0] if len(made) == 1 else made or None

    keys = importlib.import_module("tilelang.transform").PassConfigKey
    given_jit = whole.jit

    def renamed(*args: Any, pass_configs: Any = None, **kwargs: Any) -> Any:
        return given_jit(*args, pass_configs=_renamed(pass_configs), **kwargs)

    if not hasattr(keys, "TL_DISABLE_FAST_MATH"):
        put(keys, "TL_DISABLE_FAST_MATH", _NO_FAST_MATH, create=True)
        put(whole, "jit", renamed)
    put(kernel_class, "__call__", launched)
    put(kernel_class, "get_profiler", lambda kernel, *a, **k: Profiler(kernel, side))
    put(jit, "cached", _released(jit.cached, turn))
    put(jit.JITImpl, "compile", _released(jit.JITImpl.compile, turn))
    put(profiler, "do_bench", _no_timing(side))
    put(tuner, "autotune", host.autotune)
    put(whole, "autotune", host.autotune)
    put(tuner, "set_autotune_inputs", mock.MagicMock())


_NO_FAST_MATH = "tl.disable_fast_math"
"""Key of earlier versions, which an example still names; 0.1.14 has its opposite."""


def _renamed(configs: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the options of a compilation as TileLang 0.1.14 names them."""
    if configs is None or _NO_FAST_MATH not in configs:
        return None if configs is None else dict(configs)
    kept = {key: value for key, value in configs.items() if key != _NO_FAST_MATH}
    return {**kept, "tl.enable_fast_math": not configs[_NO_FAST_MATH]}


def difference(ours: Launch, theirs: Launch) -> float:
    """Return the largest relative difference of two launches' results, in the Frobenius norm.

    For integers it is the share of elements that differ.  Infinities and NaNs have to be in the
    same places, or the difference is infinite, as it is where there is nothing to compare.
    """
    pairs = [
        _apart(got, want)
        for got, want in zip(ours.results, theirs.results)
        if isinstance(got, torch.Tensor) and isinstance(want, torch.Tensor)
    ]
    return max(pairs, default=math.inf)


def _apart(got: torch.Tensor, want: torch.Tensor) -> float:
    if got.shape != want.shape:
        return math.inf
    if not got.dtype.is_floating_point:
        return float((got != want).float().mean()) if got.numel() else 0.0
    got, want = got.float(), want.float()
    known = torch.isfinite(want)
    if bool((torch.isfinite(got) != known).any()):
        share = float((torch.isfinite(got) != known).float().mean())
        return math.inf if share > 1e-4 else share
    zero = torch.zeros((), device=got.device)
    got, want = torch.where(known, got, zero), torch.where(known, want, zero)
    size = float(torch.linalg.vector_norm(want, dtype=torch.float64))
    apart = float(torch.linalg.vector_norm(got - want, dtype=torch.float64))
    return apart / size if size else apart
