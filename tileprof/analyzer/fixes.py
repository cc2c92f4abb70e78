"""Changes of a program that can be made without its author, as types with facts.

In: what a rule knows of a cause.  Out: a `Fix`, which a finding carries beside its advice, and its
form in JSON. `tileprof.trying` makes such a change in a process of the program, compares results
and times it; nothing here does so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from tileprof.errors import Location

Accuracy: TypeAlias = Literal["exact", "rounding", "precision"]
"""How far a change may move results: not at all; by another order of the same operations; by
operands with fewer bits."""


@dataclass(frozen=True, slots=True)
class MatmulPrecision:
    """Products of 32-bit floats may round their operands to TF32 or bfloat16."""

    code: ClassVar = "tf32"
    accuracy: ClassVar[Accuracy] = "precision"
    precision: Literal["high", "medium"] = "high"
    """As `torch.set_float32_matmul_precision` takes it."""

    def __str__(self) -> str:
        return f'torch.set_float32_matmul_precision("{self.precision}")'


@dataclass(frozen=True, slots=True)
class Autocast:
    """Forward passes run under `torch.autocast`."""

    code: ClassVar = "autocast"
    accuracy: ClassVar[Accuracy] = "precision"
    dtype: Literal["bfloat16", "float16"] = "bfloat16"

    def __str__(self) -> str:
        return f"forward passes under torch.autocast(dtype=torch.{self.dtype})"


@dataclass(frozen=True, slots=True)
class OptimizerForm:
    """Optimizers of `torch.optim` update all parameters in one kernel, or by calls on lists."""

    code: ClassVar = "optimizer"
    accuracy: ClassVar[Accuracy] = "rounding"
    form: Literal["fused", "foreach"] = "fused"
    optimizer: str = ""
    """Name of the class: `AdamW`; empty for all that have this form."""

    def __str__(self) -> str:
        return f"{self.form}=True for torch.optim.{self.optimizer or 'optimizers'}"


@dataclass(frozen=True, slots=True)
class LoaderWorkers:
    """Data loaders without workers get some."""

    code: ClassVar = "workers"
    accuracy: ClassVar[Accuracy] = "exact"
    workers: int = 4

    def __str__(self) -> str:
        return f"num_workers={self.workers}, persistent_workers=True for DataLoaders without any"


@dataclass(frozen=True, slots=True)
class CompiledFunction:
    """`torch.compile` of one function of the program."""

    code: ClassVar = "compile"
    accuracy: ClassVar[Accuracy] = "rounding"
    file: str
    function: str
    """Its name in the file, with its class: `Block.forward`; empty where `line` says which."""
    line: int = 0
    """A line inside of it, from 1."""

    def __str__(self) -> str:
        name = self.file.replace("\\", "/").rpartition("/")[2]
        return f"torch.compile of {self.function or f'the function at line {self.line}'} in {name}"


@dataclass(frozen=True, slots=True)
class EnvironmentVariable:
    """A setting of a library that it reads from the environment when it starts."""

    code: ClassVar = "env"
    accuracy: ClassVar[Accuracy] = "rounding"
    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}={self.value} in the environment"


@dataclass(frozen=True, slots=True)
class LoweringControl:
    """A control of the lowering of tile kernels for GPUs (`tileprof.Controls`)."""

    code: ClassVar = "control"
    accuracy: ClassVar[Accuracy] = "rounding"
    name: str
    value: int | bool | str

    def __str__(self) -> str:
        return f"the control {self.name}={self.value!r} for all kernels"


@dataclass(frozen=True, slots=True)
class Setting:
    """A change that is made or not: there is one of its code."""

    code: str
    accuracy: Accuracy
    text: str

    def __str__(self) -> str:
        return self.text


CONVOLUTION_TRIALS = Setting("cudnn-benchmark", "rounding", "torch.backends.cudnn.benchmark = True")
"""cuDNN times its algorithms for each new shape and takes the fastest."""
PINNED_MEMORY = Setting(
    "pinned", "exact", "pin_memory=True for DataLoaders, and non_blocking=True for copies from them"
)
CHANNELS_LAST = Setting(
    "channels-last", "rounding", "memory_format=torch.channels_last for convolutions"
)
"""Weights of two-dimensional convolutions, and so what they return, have channels last."""
GRADIENTS_TO_NONE = Setting("zero-grad", "exact", "zero_grad(set_to_none=True)")
"""`zero_grad` drops gradients instead of filling them with zeros."""
NO_CHECKPOINTS = Setting(
    "no-checkpoints", "rounding",
    "torch.utils.checkpoint without recomputation: activations are kept",
)  # fmt: skip
SPARSE_GRADIENTS = Setting(
    "sparse-gradients", "rounding", "sparse=True for torch.nn.Embedding and EmbeddingBag"
)
"""Embeddings get gradients of the rows that were looked up, not of whole tables."""
COMPILED_MODELS = Setting(
    "compile-models", "rounding", "model.compile() for models that the program calls"
)
"""Modules with parameters whose calls are in no other module are compiled at their first call."""
SETTINGS = {
    each.code: each
    for each in (
        CONVOLUTION_TRIALS, PINNED_MEMORY, CHANNELS_LAST, GRADIENTS_TO_NONE, NO_CHECKPOINTS,
        SPARSE_GRADIENTS, COMPILED_MODELS,
    )
}  # fmt: skip
"""Settings by their codes."""

WithFacts: TypeAlias = (
    MatmulPrecision
    | Autocast
    | OptimizerForm
    | LoaderWorkers
    | CompiledFunction
    | EnvironmentVariable
    | LoweringControl
)
Fix: TypeAlias = Setting | WithFacts
"""One change."""
FIXES: dict[str, type[WithFacts]] = {each.code: each for each in get_args(WithFacts)}
"""Kinds of changes that have facts, by their codes."""


def compiled_at(place: Location | None) -> tuple[Fix, ...]:
    """Return the change that compiles the function around a line; none where no line is known.

    Code of a module that is in no function cannot be compiled, so it has no such change.
    """
    if place is None or not place.line or place.function == "<module>":
        return ()
    return (CompiledFunction(place.file, "", place.line),)


def fix_json(fix: Fix) -> dict[str, Any]:
    """Return a change as JSON has it: its code, its facts, and what it is in words."""
    facts = {} if isinstance(fix, Setting) else asdict(fix)
    return {"fix": fix.code, "fix_facts": facts, "text": str(fix)}


def fix_from_json(written: Mapping[str, Any]) -> Fix | None:
    """Return the change that was written; None for a code or facts of a later version."""
    code, facts = written.get("fix", ""), written.get("fix_facts")
    if not isinstance(facts, Mapping):
        return None
    if code in SETTINGS:
        return None if facts else SETTINGS[code]
    kind = FIXES.get(code)
    if kind is None or facts.keys() - {each.name for each in fields(kind)}:
        return None
    try:
        return kind(**facts)
    except TypeError:
        return None
