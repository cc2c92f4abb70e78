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
class ConvolutionTrials:
    """cuDNN times its algorithms for each new shape and takes the fastest."""

    code: ClassVar = "cudnn-benchmark"
    accuracy: ClassVar[Accuracy] = "rounding"

    def __str__(self) -> str:
        return "torch.backends.cudnn.benchmark = True"


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
class PinnedMemory:
    """Data loaders give pinned memory, and copies of it to a device do not wait."""

    code: ClassVar = "pinned"
    accuracy: ClassVar[Accuracy] = "exact"

    def __str__(self) -> str:
        return "pin_memory=True for DataLoaders, and non_blocking=True for copies from them"


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
class ChannelsLast:
    """Weights of two-dimensional convolutions, and so what they return, have channels last."""

    code: ClassVar = "channels-last"
    accuracy: ClassVar[Accuracy] = "rounding"

    def __str__(self) -> str:
        return "memory_format=torch.channels_last for convolutions"


@dataclass(frozen=True, slots=True)
class GradientsToNone:
    """`zero_grad` drops gradients instead of filling them with zeros."""

    code: ClassVar = "zero-grad"
    accuracy: ClassVar[Accuracy] = "exact"

    def __str__(self) -> str:
        return "zero_grad(set_to_none=True)"


@dataclass(frozen=True, slots=True)
class NoCheckpoints:
    """`torch.utils.checkpoint` calls its function and keeps what it computes."""

    code: ClassVar = "no-checkpoints"
    accuracy: ClassVar[Accuracy] = "rounding"

    def __str__(self) -> str:
        return "torch.utils.checkpoint without recomputation: activations are kept"


@dataclass(frozen=True, slots=True)
class SparseGradients:
    """Embeddings get gradients of the rows that were looked up, not of whole tables."""

    code: ClassVar = "sparse-gradients"
    accuracy: ClassVar[Accuracy] = "rounding"

    def __str__(self) -> str:
        return "sparse=True for torch.nn.Embedding and EmbeddingBag"


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


Fix: TypeAlias = (
    MatmulPrecision
    | Autocast
    | ConvolutionTrials
    | OptimizerForm
    | LoaderWorkers
    | PinnedMemory
    | CompiledFunction
    | ChannelsLast
    | GradientsToNone
    | NoCheckpoints
    | SparseGradients
    | EnvironmentVariable
    | LoweringControl
)
"""One change."""
FIXES: dict[str, type[Fix]] = {each.code: each for each in get_args(Fix)}
"""Kinds of changes by their codes."""


def compiled_at(place: Location | None) -> tuple[Fix, ...]:
    """Return the change that compiles the function around a line; none where no line is known.

    Code of a module that is in no function cannot be compiled, so it has no such change.
    """
    if place is None or not place.line or place.function == "<module>":
        return ()
    return (CompiledFunction(place.file, "", place.line),)


def fix_json(fix: Fix) -> dict[str, Any]:
    """Return a change as JSON has it: its code, its facts, and what it is in words."""
    return {"fix": fix.code, "fix_facts": asdict(fix), "text": str(fix)}


def fix_from_json(written: Mapping[str, Any]) -> Fix | None:
    """Return the change that was written; None for a code or facts of a later version."""
    kind, facts = FIXES.get(written.get("fix", "")), written.get("fix_facts")
    if kind is None or not isinstance(facts, Mapping):
        return None
    if facts.keys() - {each.name for each in fields(kind)}:
        return None
    try:
        return kind(**facts)
    except TypeError:
        return None
