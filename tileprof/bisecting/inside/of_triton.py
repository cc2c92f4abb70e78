"""Kernels of Triton, of whichever version this interpreter imports.

Without a GPU a driver that only names its target takes the place of Triton's: kernels are compiled
and not launched.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .cases import Case, Refused, Wanted
from .source import source_of

_TYPES = {"i1", "i8", "i16", "i32", "i64", "u1", "u8", "u16", "u32", "u64", "fp16", "bf16", "fp32",
          "fp64", "fp8e4nv", "fp8e5"}  # fmt: skip
RESULTS = {
    "hash", "name", "shared", "target", "arch", "triton_version", "extern_libs", "tensordesc_meta",
    "tmem_size", "global_scratch_size", "global_scratch_align", "profile_scratch_size",
    "profile_scratch_align", "warp_size", "backend_name", "supported_fp8_dtypes",
    "deprecated_fp8_dot_operand_dtypes", "allowed_dot_input_precisions", "ir_override",
}  # fmt: skip
"""Entries of a kernel's metadata that follow from its code or its environment; all others are
options that it was compiled with."""
_NAMES = {"ttir": "TTIR", "ttgir": "TTGIR", "llir": "LLVM IR", "gluon": "Gluon IR"}


def prepare(folder: str) -> None:
    """Set what Triton reads when it is imported: nothing is taken from the user's own cache."""
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")


def is_kernel(value: Any) -> bool:
    """Return whether a value is a kernel, or one with configurations or heuristics around it."""
    return type(value).__module__.startswith("triton.") and hasattr(value, "arg_names")


def cases_of(name: str, found: Any, wanted: Wanted) -> list[Case]:
    """Return the case of a kernel of a file: types and constants are values of `--set`."""
    function, values = _inner(found, wanted.values)
    signature, constants, attributes = _typed(function, values)
    options = {n: v for n, v in values.items() if n not in function.arg_names}
    options.update(wanted.controls)
    ASTSource: Any = importlib.import_module("triton.compiler").ASTSource
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)

    def call() -> Callable[[], Any]:
        raise Refused(
            f"`{name}` has no arguments to be timed with",
            "Name a function or a script that launches it instead.",
        )

    held = _Held(source, _target(wanted), options, function, wanted, {})
    return [Case(function.__name__, "triton", held.forms, call)]


@contextmanager
def capturing(wanted: Wanted) -> Iterator[list[Case]]:
    """Collect a case for each kernel that is launched inside, with its first launch."""
    cases: list[Case] = []
    jit: Any = importlib.import_module("triton.runtime.jit")
    launches = wanted.device.startswith("cuda")
    if not launches:
        _without_gpu(_target(wanted))
    original = jit.JITFunction.run
    seen: set[Any] = set()
    chosen = {}
    if wanted.controls:
        known = _known_options(_target(wanted))
        chosen = {n: v for n, v in wanted.controls.items() if n in known}

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        options = {**kwargs, **chosen}
        if not launches:
            options["warmup"] = True
        made = original(self, *args, **options)
        key = getattr(getattr(made, "metadata", None), "hash", None)
        if key is not None and key not in seen:
            seen.add(key)
            cases.append(_launched(self, made, args, options, original, wanted))
        return made

    jit.JITFunction.run = run
    try:
        yield cases
    finally:
        jit.JITFunction.run = original


def _launched(
    function: Any, made: Any, args: Any, kwargs: dict[str, Any], run: Any, wanted: Wanted
) -> Case:
    grid = kwargs.get("grid")
    shown = "" if grid is None or callable(grid) else " x ".join(str(each) for each in grid)
    metadata = made.metadata._asdict()
    held = _Held(made.src, metadata["target"], metadata, function, wanted,
                 {"grid": shown} if shown else {})  # fmt: skip

    def call() -> Callable[[], Any]:
        if not wanted.device.startswith("cuda"):
            raise Refused("Triton's kernels are timed on a GPU only")
        return lambda: run(function, *args, **kwargs)

    return Case(function.__name__, "triton", held.forms, call)


def _inner(found: Any, values: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the function inside of configurations, with the values of the first configuration
    where `--set` gives none."""
    given = dict(values)
    while hasattr(found, "fn") and not hasattr(found, "params"):
        for config in getattr(found, "configs", ())[:1]:
            chosen = {**config.kwargs, "num_warps": config.num_warps,
                      "num_stages": config.num_stages}  # fmt: skip
            given = {**chosen, **given}
        found = found.fn
    return found, given


def _typed(
    function: Any, values: Mapping[str, Any]
) -> tuple[dict[str, str], dict[Any, Any], dict[Any, Any]]:
    """Return the signature, constants and attributes that values ask for: `*fp32:16` is a pointer
    whose address is a multiple of 16, any other value a constant."""
    signature: dict[str, str] = {}
    constants: dict[Any, Any] = {}
    attributes: dict[Any, Any] = {}
    for at, param in enumerate(function.params):
        value = values.get(param.name)
        if value is None and param.has_default:
            value = param.default
        elif value is None:
            example = "64" if param.is_constexpr else "'*fp32:16'"
            raise Refused(
                f"`{function.__name__}` needs a type or a value for `{param.name}`",
                f"Give it: --set {param.name}={example}.",
            )
        kind, _, hint = str(value).partition(":")
        if isinstance(value, str) and (kind.startswith("*") or kind in _TYPES):
            signature[param.name] = kind
            if hint == "16":
                attributes[(at,)] = [["tt.divisibility", 16]]
        else:
            signature[param.name] = "constexpr"
            constants[(at,)] = value
    return signature, constants, attributes


class _Held:
    """A kernel's source with its types, and how it is compiled."""

    def __init__(
        self, source: Any, target: Any, options: Mapping[str, Any], function: Any, wanted: Wanted,
        launch: Mapping[str, str],
    ) -> None:  # fmt: skip
        self._source, self._target, self._options = source, target, dict(options)
        self._function, self._wanted, self._launch = function, wanted, launch

    def forms(self, controls: Mapping[str, Any], passes: bool) -> dict[str, Any]:
        """Return every form of the kernel; with passes, the program before each of them too."""
        compiler: Any = importlib.import_module("triton.compiler")
        known = _options_of(self._target, {**self._options, **controls})
        with _dumped(passes) as dump:
            made = compiler.compile(self._source, target=self._target, options=known)
        texts = {name: _text(made.asm[name]) for name in made.asm}
        metadata = made.metadata._asdict()
        steps = [[_NAMES.get(name, name), texts[name]] for name in texts if name in _NAMES]
        return {
            "source": source_of(self._function, self._wanted.folder),
            "specialisation": self._specialisation(),
            "options": {n: str(v) for n, v in metadata.items() if n not in RESULTS},
            "ir": steps[:1],
            "code": steps[1:],
            "dump": dump[0] if dump else "",
            "flags": [],
            "ptx": texts.get("ptx", ""),
            "cubin": made.asm["cubin"].hex() if "cubin" in made.asm else "",
            "launch": {**self._launch, **_launch_facts(metadata)},
            "tools": _tools(texts),
            "missing": "",
        }

    def _specialisation(self) -> dict[str, str]:
        names = [each.name for each in self._function.params]
        found = {str(name): str(kind) for name, kind in self._source.signature.items()}
        for key, value in self._source.constants.items():
            at = key[0] if isinstance(key, tuple) else key
            found[names[at] if isinstance(at, int) else str(at)] = repr(value)
        for key, value in (self._source.attrs or {}).items():
            at = key[0] if isinstance(key, tuple) else key
            name = names[at] if isinstance(at, int) else str(at)
            found[name] = f"{found.get(name, '')} {value}"
        return found


def _launch_facts(metadata: Mapping[str, Any]) -> dict[str, str]:
    warps, size = metadata.get("num_warps"), metadata.get("warp_size") or 32
    cluster = metadata.get("cluster_dims") or (metadata.get("num_ctas", 1),)
    return {
        "threads": str(warps * size) if warps else "",
        "dynamic shared bytes": str(metadata.get("shared", "")),
        "cluster": str(max([int(each) for each in cluster] or [1])),
        "starts early": str(metadata.get("launch_pdl", False)),
    }


def _options_of(target: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a version of Triton knows as options."""
    known = _known_options(target)
    # Results of an earlier compilation are among those of its metadata.
    return {n: v for n, v in given.items() if n in known and n not in RESULTS and v is not None}


def _known_options(target: Any) -> set[str]:
    compiler: Any = importlib.import_module("triton.compiler.compiler")
    defaults = compiler.make_backend(target).parse_options({})
    return set(getattr(type(defaults), "__dataclass_fields__", ()))


def refuse_unknown(wanted: Wanted) -> None:
    """Refuse options of this side that this version has not."""
    known = _known_options(_target(wanted))
    for name in wanted.controls:
        if name not in known:
            options = ", ".join(sorted(known - RESULTS))
            raise Refused(f"this version of Triton has no option `{name}`",
                          f"Its options are: {options}.")  # fmt: skip


@contextmanager
def _dumped(wanted: bool) -> Iterator[list[str]]:
    """Collect what MLIR prints between passes; it writes to the process' own standard error."""
    dump: list[str] = []
    if not wanted:
        yield dump
        return
    before = {name: os.environ.get(name) for name in ("MLIR_ENABLE_DUMP", "TRITON_ALWAYS_COMPILE")}
    os.environ.update(MLIR_ENABLE_DUMP="1", TRITON_ALWAYS_COMPILE="1")
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield dump
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        file.seek(0)
        dump.append(file.read().decode(errors="replace"))


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _tools(texts: Mapping[str, str]) -> dict[str, str]:
    found = {"Triton": str(getattr(sys.modules["triton"], "__version__", ""))}
    for line in texts.get("ptx", "").splitlines():
        if line.startswith(".version"):
            found["PTX"] = line.split()[1]
            break
    return found


def _target(wanted: Wanted) -> Any:
    try:
        GPUTarget: Any = importlib.import_module("triton.backends.compiler").GPUTarget
    except (ImportError, AttributeError):
        raise Refused("this version of Triton is too old to be given a target",
                      "Versions since 3.0 can.") from None  # fmt: skip
    digits = "".join(each for each in wanted.target if each.isdigit())
    if not digits:
        raise Refused(f"Triton does not compile for `{wanted.target}`", "Add --target sm_90a.")
    return GPUTarget("cuda", int(digits), 32)


def _without_gpu(target: Any) -> None:
    """Put a driver in place that names a target and launches nothing."""
    runtime: Any = importlib.import_module("triton.runtime.driver")

    class Driver:
        def get_current_target(self) -> Any:
            return target

        def get_current_device(self) -> int:
            return 0

        def set_current_device(self, device: int) -> None:
            pass

        def get_current_stream(self, device: int) -> int:
            return 0

        def get_active_torch_device(self) -> Any:
            return importlib.import_module("torch").device("cpu")

        def get_device_interface(self) -> Any:
            return importlib.import_module("torch").cuda

        def get_benchmarker(self) -> Any:
            # The first configuration of a list is taken.
            return lambda function, quantiles=(), **more: [0.0] * max(len(quantiles), 1)

        def map_python_to_cpp_type(self, kind: str) -> str:
            return kind

    runtime.driver.set_active(Driver())
