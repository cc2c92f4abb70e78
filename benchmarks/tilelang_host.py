"""What TileLang's examples need around their kernels, where there is no TileLang and no GPU.

`install()` puts modules in place of `tilelang` and its parts: `tilelang.language` is
`tileprof.lang`, `tilelang.jit` and `tilelang.compile` are tileprof's.  The rest (autotuning,
benchmarking, configuration keys) are stand-ins that do nothing or the least that a check needs.
`on_host()` lets PyTorch code that asks for a GPU use the CPU.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import math
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

FOREIGN = (
    "triton",
    "fla",
    "flash_attn",
    "bitblas",
    "flash_mla",
    "flashinfer",
    "aiter",
    "mamba_ssm",
)
"""Packages that examples compare with; they may be imported, and nothing in them works."""

used: set[str] = set()
"""The stand-ins that the running example asked for."""
checks = 0
"""Comparisons with a reference so far."""


class Missing(AttributeError):
    """A part of TileLang outside of its language that has no stand-in."""


class _Standin(types.ModuleType):
    """A module of TileLang: `found` first, then the names that were given to it."""

    def __init__(self, name: str, found: Any = None, **names: Any) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__file__ = __file__
        self.__all__ = list(names)
        self._found = found
        self._names = names

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._names:
            held = self._names[name]
            if not isinstance(held, types.ModuleType):
                used.add(name)
            return held
        if self._found is not None and name in getattr(self._found, "__all__", ()):
            return getattr(self._found, name)
        raise Missing(f"{self.__name__}.{name}")


class _Keys:
    """`PassConfigKey.ANYTHING`, `TensorSupplyType.ANYTHING`."""

    def __getattr__(self, name: str) -> str:
        return name


def autotune(function: Any = None, configs: Any = None, **options: Any) -> Any:
    """Use the first configuration for what a call leaves out."""

    def wrap(kernel: Any) -> Any:
        held = (
            configs()
            if callable(configs) and not inspect.signature(configs).parameters
            else (configs)
        )
        first = next(iter(held)) if isinstance(held, (list, tuple)) and held else {}
        return Tuned(kernel, first)

    return wrap if function is None else wrap(function)


class Tuned:
    """A kernel under `autotune`."""

    def __init__(self, kernel: Any, config: dict[str, Any]) -> None:
        self.kernel = kernel
        self.config = config

    def _full(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        given = list(self.kernel.signature.parameters)[: len(args)]
        missing = {
            n: v
            for n, v in self.config.items()
            if n in self.kernel.signature.parameters and n not in given
        }
        return {**missing, **kwargs}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The kernel with the first configuration."""
        found = self.kernel(*args, **self._full(args, kwargs))
        return Found(found, self.config) if hasattr(found, "traced") else found

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        """As a call, compiled only."""
        return self.kernel.compile(*args, **self._full(args, kwargs))


class Found:
    """A compiled kernel, with the configuration that tuning found."""

    latency = 1.0

    def __init__(self, kernel: Any, config: dict[str, Any]) -> None:
        self._kernel = kernel
        self.config = config

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The kernel's result."""
        return self._kernel(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)


def _get_tir(function: Any, *args: Any, **kwargs: Any) -> Any:
    """`get_tir` of a function that returns a kernel: its parameters, and types of the tensors."""
    params = function(*args, **kwargs).traced.params
    return types.SimpleNamespace(
        params=params,
        buffer_map={
            p: types.SimpleNamespace(dtype=p.type.dtype.name, shape=p.type.shape)
            for p in params
            if hasattr(p.type, "shape")
        },
    )


def do_bench(*args: Any, **kwargs: Any) -> float:
    """A time that stands for none: the examples are checked here, not measured."""
    return 1.0


class Profiler:
    """`kernel.get_profiler()`: random inputs, and a comparison with a reference."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def do_bench(self, *args: Any, **kwargs: Any) -> float:
        """See `do_bench`."""
        return 1.0

    def run_once(self) -> Any:
        """Call the kernel once on random inputs."""
        return self.kernel(*(_random(p) for p in self.kernel.traced.params if p.role == "in"))

    def assert_allclose(
        self, reference: Callable[..., Any], rtol: float = 1e-2, atol: float = 1e-2, **rest: Any
    ) -> None:
        """Run the kernel and the reference on one set of inputs."""
        import torch

        inputs = [_random(p) for p in self.kernel.traced.params if p.role == "in"]
        results = self.kernel(*inputs)
        expected = reference(*inputs)
        for got, want in zip(_several(results), _several(expected)):
            torch.testing.assert_close(
                got.float(), want.float(), rtol=rtol, atol=atol, equal_nan=True
            )

    def assert_consistent(self, *args: Any, **kwargs: Any) -> None:
        """Run twice: the same inputs give the same results."""


def _several(results: Any) -> Sequence[Any]:
    return results if isinstance(results, (tuple, list)) else (results,)


def _random(param: Any) -> Any:
    import torch

    # A parameter of TileLang has a type and a shape of its own.
    plain = not hasattr(param, "dtype")
    name = param.type.dtype.name if plain else str(param.dtype)
    kind = getattr(torch, {"float8_e4m3": "float8_e4m3fn"}.get(name, name))
    shape = param.type.static_shape if plain else tuple(map(int, param.shape))
    if kind.is_floating_point:
        return torch.randn(shape).to(kind)
    return torch.randint(-2, 3, shape).to(kind)


def compare(one: Any, other: Any, rtol: float = 1e-2, atol: float = 1e-2, **rest: Any) -> None:
    """`torch_assert_close` of TileLang: a share of elements may be off."""
    import torch

    allowed = rest.get("max_mismatched_ratio", 0.001)
    wrong = ~torch.isclose(one, other, rtol=rtol, atol=atol, equal_nan=True)
    _count()
    assert wrong.float().mean() <= allowed, f"{int(wrong.sum())} elements differ"


def attention_varlen(
    q: Any, k: Any, v: Any, starts_q: Any, starts_k: Any, *rest: Any, causal: bool = False
) -> Any:
    """Attention over sequences that lie one after the other: tokens × heads × dim."""
    import torch

    made = torch.zeros_like(q)
    group = q.shape[1] // k.shape[1]
    ends_q, ends_k = starts_q.tolist()[1:], starts_k.tolist()[1:]
    for a, b, c, d in zip(starts_q.tolist(), ends_q, starts_k.tolist(), ends_k):
        keys, values = (x[c:d].float().repeat_interleave(group, dim=1) for x in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q[a:b].float(), keys) * q.shape[-1] ** -0.5
        if causal:
            hidden = torch.ones(b - a, d - c, dtype=torch.bool, device=q.device).triu(
                d - c - b + a + 1
            )
            scores = scores.masked_fill(hidden, float("-inf"))
        made[a:b] = torch.einsum("hqk,khd->qhd", scores.softmax(-1), values).to(q.dtype)
    return made


def hadamard_matrix(size: int, dtype: Any = int) -> Any:
    """Return SciPy's `hadamard`: signs by the parity of the bits that two indices share."""
    import numpy as np

    made = np.ones((1, 1), dtype)
    while len(made) < size:
        made = np.block([[made, made], [made, -made]])
    return made


def _supply(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    return _random


def _count() -> None:
    global checks
    checks += 1


class _Anything:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass


class _Foreign(types.ModuleType):
    """A module of a package that is not needed: everything is there and does nothing."""

    __version__ = "0"
    __file__ = __file__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        # Classes must be classes: others ask whether something is one of theirs.
        return type(name, (_Anything,), {}) if name[0].isupper() else mock.MagicMock()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of `FOREIGN` packages."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """A module for each of their names."""
        root = name.partition(".")[0]
        # A package that is installed has its own modules, or none of that name.
        if root in FOREIGN and (name == root or stands_in(sys.modules.get(root))):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        """A module; that of `flash_attn` has the one function that examples compare with."""
        made = _Foreign(spec.name)
        if spec.name == "flash_attn":
            vars(made)["flash_attn_varlen_func"] = attention_varlen
        return made

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


def stands_in(module: Any) -> bool:
    """Return whether a module is a stand-in for one of a package that is not installed."""
    return isinstance(module, _Foreign)


def install() -> None:
    """Put the stand-ins in place; for a process of its own."""
    import tileprof
    import tileprof.lang as lang

    assert tileprof.jit is not None
    from tileprof.cli.kernel.tilelang_files import jit_of_tuner
    from tileprof.lang.functions import PrimFunc
    from tileprof.lang.jit_function import JitFunction, Kernel

    power = {"next_power_of_2": lambda n: 1 << max(0, math.ceil(math.log2(n)))}
    keys = {"PassConfigKey": _Keys(), "TensorSupplyType": _Keys()}
    tune = {
        "autotune": autotune,
        "set_autotune_inputs": mock.MagicMock(),
        "AutoTuner": mock.MagicMock(),
    }
    fp8 = {"determine_fp8_type": _fp8, "determine_torch_fp8_type": _torch_fp8}
    whole = _Standin(
        "tilelang",
        tileprof,
        language=lang,
        cdiv=lambda a, b: -(-a // b),
        disable_cache=lambda: None,
        set_log_level=lambda level: None,
        JITKernel=object,
        DataType=lang.dtype,
        **power,
        **keys,
        **tune,
    )
    bench = {"do_bench": do_bench}
    nvcc = _Standin(
        "tilelang.contrib.nvcc",
        get_target_compute_version=_compute_version,
        parse_compute_version=_parse_version,
        get_cuda_version=lambda *args: (12, 8),
    )
    modules = {
        "": whole,
        ".language": lang,
        ".profiler": _Standin("tilelang.profiler", **bench),
        ".autotuner": _Standin("tilelang.autotuner", jit=jit_of_tuner, **tune),
        ".quantize": _Standin("tilelang.quantize", _tir_packed_int_to_int_convert=_unpacking),
        ".transform": _Standin("tilelang.transform", PassConfigKey=_Keys()),
        ".language.fp8": _Standin("tilelang.language.fp8", **fp8),
        ".utils": _Standin("tilelang.utils", **fp8),
        ".utils.tensor": _Standin(
            "tilelang.utils.tensor", torch_assert_close=compare, get_tensor_supply=_supply, **keys
        ),
        ".utils.target": _Standin("tilelang.utils.target", determine_target=determine_target),
        ".utils.device": _Standin("tilelang.utils.device", get_current_device=lambda: "cuda"),
        ".math": _Standin("tilelang.math", **power),
        ".testing": mock.MagicMock(__path__=[]),
        ".contrib": mock.MagicMock(__path__=[], nvcc=nvcc),
        ".contrib.nvcc": nvcc,
        ".jit": _Standin(
            "tilelang.jit",
            jit=tileprof.jit,
            compile=lang.compile,
            JITImpl=JitFunction,
            JITKernel=Kernel,
        ),
        ".engine": mock.MagicMock(__path__=[]),
        ".engine.param": _Standin("tilelang.engine.param", KernelParam=Param),
        ".engine.callback": mock.MagicMock(),
        ".tileop": _Standin("tilelang.tileop"),
        ".tileop.base": _Standin("tilelang.tileop.base", GemmWarpPolicy=lang.GemmWarpPolicy),
        ".carver": _Standin("tilelang.carver"),
        ".carver.template": mock.MagicMock(),
        ".carver.roller": mock.MagicMock(__path__=[]),
        ".carver.roller.rasterization": mock.MagicMock(),
        ".carver.arch": _Standin(
            "tilelang.carver.arch", driver=_Driver(), CUDA=mock.MagicMock(), CDNA=mock.MagicMock()
        ),
        ".cuda": _Standin("tilelang.cuda"),
        ".cuda.intrinsics": _Standin(
            "tilelang.cuda.intrinsics", make_mma_swizzle_layout=lang.make_swizzled_layout
        ),
        ".layout": _Standin(
            "tilelang.layout",
            make_swizzled_layout=lang.make_swizzled_layout,
            make_linear_layout=lang.make_swizzled_layout,
        ),
    }
    tirx = _Standin(
        "tvm.tirx",
        const=lambda value, kind: lang.cast(value, kind),
        reinterpret=lang.reinterpret,
        Cast=lang.Cast,
        PrimExpr=object,
        PrimFunc=_program,
    )
    # Rewriting of TVM's trees: there are none here, so a rewriter finds nothing to change.
    functor = _Standin(
        "tvm.tirx.stmt_functor",
        ir_transform=lambda body, before, after: body,
        post_order_visit=lambda body, visit: None,
    )
    testing = mock.MagicMock(__path__=[], requires_package=lambda *names: lambda test: test)
    tvm = _Standin("tvm", DataType=lang.dtype, tirx=tirx, tir=tirx, testing=testing)
    tvm.__spec__ = importlib.machinery.ModuleSpec("tvm", None)
    sys.modules.update({"tvm": tvm, "tvm.tirx": tirx, "tvm.tir": tirx, "tvm.testing": testing})
    sys.modules["tvm.tirx.stmt_functor"] = functor
    sys.modules["tvm.ir"] = _Standin("tvm.ir", PrimExpr=object)
    if "scipy" not in sys.modules and importlib.util.find_spec("scipy") is None:
        linalg = types.SimpleNamespace(hadamard=hadamard_matrix)
        sys.modules["scipy"] = _Standin("scipy", linalg=linalg)
    whole._names["tvm"] = tvm
    for name, module in modules.items():
        sys.modules[f"tilelang{name}"] = module
        # `tilelang.jit` is both a module and, as an attribute, the decorator.
        if name.count(".") == 1 and name not in (".language", ".jit"):
            whole._names[name[1:]] = module
    sys.meta_path.append(_Finder())
    Kernel.get_profiler = _get_profiler
    JitFunction.get_tir = _get_tir
    for name, part in _PARTS.items():
        setattr(PrimFunc, name, property(part))
    Kernel.params = property(_params)
    JitFunction.func = property(lambda made: made.function)


_PARTS: dict[str, Callable[[Any], Any]] = {
    "body": lambda program: program,
    "params": lambda program: list(program.signature.parameters),
    "ret_type": lambda program: None,
    "buffer_map": lambda program: {},
    "attrs": lambda program: {},
}
"""Parts of `tvm.tirx.PrimFunc` that code around kernels reads; `_program` puts them together."""


def _program(params: Any, body: Any, **rest: Any) -> Any:
    """`PrimFunc(…)` of the parts of a program that was not changed: the program."""
    return body


def _get_profiler(kernel: Any, *args: Any, **kwargs: Any) -> Profiler:
    used.add("get_profiler")
    return Profiler(kernel)


def _unpacking(kind: str = "uint", width: int = 8) -> Callable[..., Any]:
    """`tilelang.quantize`: what takes the number at a position out of a packed one, with sign."""
    import tileprof.lang as lang

    def unpack(bits: int, packed: Any, position: Any, dtype: Any) -> Any:
        held = lang.cast(packed, "int32") >> lang.cast(position, "int32") * bits
        return lang.cast((held << 32 - bits) >> 32 - bits, dtype)

    return unpack


class Param(NamedTuple):
    """A parameter of a compiled kernel; of type `KernelParam` in TileLang."""

    dtype: str
    shape: list[int]


def _params(kernel: Any) -> list[Param]:
    """Return what is said of each parameter of a kernel, outputs last."""
    params = sorted(kernel.traced.params, key=lambda p: p.role != "in")
    return [Param(p.type.dtype.name, list(p.type.static_shape)) for p in params]


def _fp8(kind: str = "e4m3", **rest: Any) -> str:
    return {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}[kind]


def _torch_fp8(kind: str = "e4m3", **rest: Any) -> Any:
    import torch

    return getattr(torch, _fp8(kind))


_GPU = types.SimpleNamespace(
    name="none", multi_processor_count=8, total_memory=1 << 30, major=8, minor=0
)
"""What PyTorch says of its GPU: one with few multiprocessors, so that examples stay small."""


def as_hopper() -> None:
    """Let PyTorch say of its GPU what it says of an H200, for libraries that choose by it."""
    vars(_GPU).update(
        name="NVIDIA H200",
        major=9,
        minor=0,
        multi_processor_count=132,
        total_memory=141 << 30,
        shared_memory_per_block_optin=227 << 10,
        shared_memory_per_multiprocessor=228 << 10,
        max_threads_per_multi_processor=2048,
        warp_size=32,
        regs_per_multiprocessor=1 << 16,
        L2_cache_size=50 << 20,
    )


def _capability(*args: Any) -> tuple[int, int]:
    return _GPU.major, _GPU.minor


def determine_target(target: Any = "auto", return_object: bool = False) -> Any:
    """`tilelang.utils.target`: what stands for the GPU that PyTorch names."""
    major, minor = _capability()
    arch = f"sm_{major}{minor}{'a' * (major >= 9)}"
    if not return_object:
        return "cuda"
    attributes = {"arch": arch, "thread_warp_size": 32, "max_num_threads": 1024}
    return types.SimpleNamespace(
        kind=types.SimpleNamespace(name="cuda"), arch=arch, keys=["cuda", "gpu"], attrs=attributes
    )


def _compute_version(target: Any = None) -> str:
    major, minor = _capability()
    return f"{major}.{minor}"


def _parse_version(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)


class _Driver:
    def get_num_sms(self) -> int:
        """Multiprocessors of the first GPU; 8 where there is none."""
        import torch

        if not torch.cuda.is_available():
            return _GPU.multi_processor_count
        return int(torch.cuda.get_device_properties(0).multi_processor_count)


def _eager(function: Any = None, **options: Any) -> Any:
    return function if function is not None else _eager


@contextmanager
def on_host(is_counted: bool = True) -> Iterator[None]:
    """PyTorch on the CPU, whatever device is asked for; comparisons are counted, and have to hold,
    unless the caller has its own."""
    import torch
    from torch.overrides import TorchFunctionMode

    from tileprof.lang import calls

    class Host(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            named = {k: v for k, v in (kwargs or {}).items() if k not in ("device", "pin_memory")}
            if function is torch.Tensor.cuda:
                return args[0]
            if function is torch.Tensor.to:
                args = tuple(a for a in args if not _is_device(a))
                return args[0] if len(args) == 1 and not named else function(*args, **named)
            return function(*args, **named)

    def _is_device(value: Any) -> bool:
        return isinstance(value, torch.device) or (
            isinstance(value, str) and value.partition(":")[0] in ("cuda", "cpu")
        )

    def seen(attribute: Any, shown: Any) -> property:
        """Answers of a tensor to a library; PyTorch and tileprof read where it is.

        So does what runs inside of a custom operator, where `Host` does not see what is asked for.
        """

        def get(tensor: Any) -> Any:
            name = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
            own = name in ("torch", "tileprof") or not torch._C._len_torch_function_stack()
            return attribute.__get__(tensor) if own else shown

        return property(get)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        if not is_counted:
            return function

        def call(*args: Any, **kwargs: Any) -> Any:
            _count()
            result = function(*args, **kwargs)
            assert result is None or result, "the reference disagrees"
            return result

        return call

    with ExitStack() as stack:
        enter = stack.enter_context
        # Examples pass tensors that require gradients, of which TileLang takes no notice.
        enter(mock.patch.object(calls, "_refuse_gradient", return_value=None))
        enter(mock.patch.object(torch.testing, "assert_close", counted(torch.testing.assert_close)))
        enter(mock.patch.object(torch, "allclose", counted(torch.allclose)))
        enter(mock.patch.object(torch.cuda, "synchronize", mock.MagicMock()))
        enter(mock.patch.object(torch.cuda, "get_device_capability", _capability))
        enter(mock.patch.object(torch.cuda, "get_device_properties", return_value=_GPU))
        enter(mock.patch.object(torch.cuda, "current_device", return_value=0))
        # Operators are called as functions: `Host` would not see inside of them.
        operator = torch.library.CustomOpDef
        enter(mock.patch.object(operator, "__call__", lambda op, *a, **k: op._init_fn(*a, **k)))
        for name, shown in (("is_cuda", True), ("device", torch.device("cuda", 0))):
            held = seen(getattr(torch.Tensor, name), shown)
            enter(mock.patch.object(torch.Tensor, name, held))
        # A compiled function computes the same as the function itself.
        enter(mock.patch.object(torch, "compile", _eager))
        enter(mock.patch.object(torch, "Generator", return_value=torch.Generator()))
        enter(mock.patch.object(torch.cuda, "Stream", mock.MagicMock()))
        enter(mock.patch.object(torch.cuda, "stream", mock.MagicMock()))
        enter(Host())
        backward = torch.autograd.function.BackwardCFunction
        apply = backward.apply

        def applied(node: Any, *args: Any) -> Any:
            # PyTorch's engine calls a function's own backward pass outside of the mode.
            with Host():
                return apply(node, *args)

        enter(mock.patch.object(backward, "apply", applied))
        # An example whose result is right for most of its random inputs is the same each time.
        torch.manual_seed(0)
        yield
