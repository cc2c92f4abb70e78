"""The programs, the standard changes of each, and which suggestions count as naming a change.

Codes were written by change, before any report on these programs was read. A code is the name of
a rule (`precision`), or a rule and words of the finding's title, advice or place (`fusion/gelu`).
Some rules do not exist yet: they are the names under which such a finding would be expected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CHANGES", "PROGRAMS", "Change", "Program"]

SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True)
class Change:
    """One switch of a program."""

    title: str
    """Change as a table tells it, such as a setting of PyTorch."""
    codes: tuple[str, ...]
    """Suggestions that name it."""
    gpu: bool = False
    """Whether it means something on a GPU only."""
    untimed: int = 1
    """Steps before each timed batch of steps: more than what is made ready in advance. With more
    of them than the program as it is, results are of other numbers of steps."""
    comparable: bool = True
    """Whether the result after as many steps has to be that of the program as it is."""


@dataclass(frozen=True)
class Program:
    """One script with the changes that a user would try."""

    name: str
    kind: str
    changes: tuple[str, ...]
    needs: tuple[str, ...] = ("torch",)
    """Packages that it imports."""
    busy_gb: float = 3.0
    """Memory of the device that one process is expected to take while it runs; with `idle_gb`, it
    decides how many stand ready together."""
    idle_gb: float = 0.9
    """The same between its steps: the context, weights, and what the optimizer keeps."""
    tolerance: float = 0.25
    """Largest difference of a result, as a share of the result of the program as it is. Training
    in another precision, or with other random numbers, goes another way after hundreds of steps."""
    loads: bool = False
    """Whether a data set makes its elements on the host, with as many threads as there are
    processors: of such programs one process warms up at a time."""
    scale: float = 1.0
    """The share is of this at least: losses go to zero where batches are learned by heart."""
    path: Path | None = None
    """Where its text is, if not among our scripts."""

    @property
    def script(self) -> Path:
        """Where its text is."""
        return self.path or SCRIPTS / f"{self.name}.py"


CHANGES: dict[str, Change] = {
    "compile": Change("`torch.compile`", ("fusion", "small-kernels", "launch-bound/torch.compile")),
    "cuda-graph": Change(
        "a CUDA graph",
        ("launch-bound/cuda graph", "small-kernels/cuda graph", "cuda-graph"),
        gpu=True,
    ),
    "static-cache": Change(
        "a cache of fixed size, compiled",
        ("launch-bound/cuda graph", "small-kernels", "generation"),
        gpu=True,
    ),
    "fused-gelu": Change("GELU as one operation", ("fusion/gelu",)),
    "fused-kernel": Change("two kernels as one", ("fusion",), gpu=True),
    "fused-optimizer": Change(
        "a fused optimizer",
        ("optimizer-passes", "fusion/optimizer.step", "small-kernels/optimizer.step"),
    ),
    "foreach-average": Change(
        "the average of weights over lists",
        ("small-kernels/average", "fusion/average", "optimizer-passes/average"),
    ),
    "library-lstm": Change(
        "`nn.LSTM`", ("recurrence", "small-kernels", "launch-bound/fewer and larger", "fusion")
    ),
    "jit-step": Change(
        "the whole step under `jit`",
        ("small-kernels", "launch-bound/fewer and larger", "fusion", "optimizer-passes"),
    ),
    "jit-update": Change(
        "the update under `jit`",
        ("optimizer-passes", "small-kernels", "launch-bound/fewer and larger"),
    ),
    "padded-vocabulary": Change(
        "a vocabulary that is a multiple of 64",
        ("alignment", "tile-quantisation"),
        comparable=True,
    ),
    "tf32": Change(
        "TF32 products", ("precision/set_float32_matmul_precision", "tensor-core-missed")
    ),
    "bf16": Change("bf16 autocast", ("precision/bfloat16", "tensor-core-missed")),
    "half": Change(
        "weights and data in bf16", ("precision/bfloat16", "tensor-core-missed", "wide-types")
    ),
    "float32": Change("floats instead of doubles", ("precision", "slow-math", "wide-types")),
    "channels-last": Change("`channels_last`", ("channels-last", "layout-copies")),
    "sdpa": Change("`scaled_dot_product_attention`", ("attention", "fusion/attention")),
    "pinned": Change("pinned memory, copied asynchronously", ("transfers/pin_memory",), gpu=True),
    "workers": Change(
        "workers that load data",
        ("loader", "launch-bound/num_workers"),
        untimed=20,
        comparable=False,
    ),
    "no-item": Change(
        "no read of results in a step", ("transfers/do not read", "synchronise"), gpu=True
    ),
    "fixed-indices": Change(
        "indices in place of masks", ("transfers/size of this result", "synchronise"), gpu=True
    ),
    "larger-batch": Change(
        "a larger batch, by sample",
        ("batch", "small-grid", "launch-bound/larger batches"),
        comparable=False,
    ),
    "less-padding": Change(
        "batches of like lengths", ("padding", "wasted-lanes"), comparable=False
    ),
    "no-checkpointing": Change("no recomputation in the backward pass", ("recomputation",)),
    "sparse-product": Change("a sparse product", ("scatter", "fusion/gather", "excess-traffic")),
    "sorted-edges": Change("edges in order", ("scatter", "uncoalesced-global")),
    "sparse-gradients": Change("sparse gradients of tables", ("embedding", "optimizer-passes")),
    "one-table": Change(
        "one table for all",
        ("embedding", "small-kernels", "launch-bound/fewer and larger"),
        comparable=False,
    ),
    "more-warps": Change(
        "8 warps a block instead of 1", ("occupancy-limited", "spill-hot"), gpu=True
    ),
    "larger-blocks": Change("larger blocks", ("small-block", "narrow-access"), gpu=True),
}
"""Every change that some program knows, by the name of its switch."""

_HF = ("torch", "transformers")
PROGRAMS: tuple[Program, ...] = (
    Program(
        "gpt2_train",
        "Hugging Face decoder, training",
        ("compile", "fused-gelu", "padded-vocabulary", "fused-optimizer", "larger-batch"),
        needs=_HF,
        busy_gb=10,
        idle_gb=2.1,
    ),
    Program(
        "diffusion_sample",
        "diffusion U-Net, sampling",
        ("compile", "cuda-graph", "tf32", "half", "channels-last", "larger-batch"),
        busy_gb=2,
        idle_gb=0.8,
        tolerance=0.1,
        scale=0,
    ),
    Program(
        "bert_finetune",
        "Hugging Face encoder, training",
        ("compile", "tf32", "bf16", "sdpa", "fused-optimizer", "pinned", "no-item", "larger-batch"),
        needs=_HF,
        busy_gb=5,
        idle_gb=2.3,
    ),
    Program(
        "gnn_train",
        "graph network, training",
        (
            "compile",
            "tf32",
            "fused-optimizer",
            "no-item",
            "fixed-indices",
            "sparse-product",
            "sorted-edges",
        ),
        busy_gb=4,
        idle_gb=1.2,
    ),
    Program(
        "resnet_train",
        "ResNet-50 with a loader, training",
        (
            "compile",
            "bf16",
            "channels-last",
            "workers",
            "pinned",
            "fused-optimizer",
            "larger-batch",
            "no-item",
        ),
        loads=True,
        busy_gb=8,
        idle_gb=1.2,
    ),
    Program(
        "recommender_train",
        "recommender, training",
        (
            "compile",
            "tf32",
            "bf16",
            "sparse-gradients",
            "one-table",
            "pinned",
            "no-item",
            "larger-batch",
        ),
        busy_gb=4,
        idle_gb=2.3,
    ),
    Program(
        "llama_generate",
        "Hugging Face decoder, generation",
        ("static-cache", "sdpa", "larger-batch"),
        needs=_HF,
        busy_gb=3,
        idle_gb=1.5,
        tolerance=0.05,
        scale=0,
    ),
    Program(
        "ppo_train",
        "reinforcement learning",
        ("compile", "fused-optimizer", "no-item", "larger-batch"),
        busy_gb=1.2,
        idle_gb=0.7,
        tolerance=1.0,
    ),
    Program(
        "diffusion_train",
        "diffusion U-Net, training",
        (
            "compile",
            "tf32",
            "bf16",
            "channels-last",
            "fused-optimizer",
            "foreach-average",
            "no-item",
            "larger-batch",
        ),
        busy_gb=9,
        idle_gb=1.2,
    ),
    Program(
        "trainer_loop",
        "trainer with callbacks, training",
        (
            "compile",
            "tf32",
            "bf16",
            "fused-optimizer",
            "workers",
            "pinned",
            "no-item",
            "larger-batch",
        ),
        loads=True,
        busy_gb=1.5,
        idle_gb=1.0,
    ),
    Program(
        "t5_train",
        "Hugging Face encoder and decoder, training",
        ("compile", "tf32", "bf16", "fused-optimizer", "no-item", "larger-batch"),
        needs=_HF,
        busy_gb=6,
        idle_gb=1.7,
    ),
    Program(
        "heat_simulation",
        "simulation on a grid",
        ("compile", "cuda-graph", "float32", "no-item"),
        busy_gb=1.2,
        idle_gb=0.8,
        tolerance=0.05,
        scale=0,
    ),
    Program(
        "embed_texts",
        "Hugging Face encoder, inference",
        ("compile", "tf32", "half", "less-padding", "no-item", "larger-batch"),
        needs=_HF,
        busy_gb=2,
        idle_gb=0.8,
        tolerance=0.05,
        scale=0,
    ),
    Program(
        "lstm_train",
        "recurrent network, training",
        ("compile", "library-lstm", "tf32", "bf16", "fused-optimizer", "no-item", "larger-batch"),
        busy_gb=3,
        idle_gb=0.9,
    ),
    Program(
        "vit_train",
        "Hugging Face ViT with a loader, training",
        ("compile", "tf32", "bf16", "workers", "pinned", "fused-optimizer", "larger-batch"),
        needs=_HF,
        loads=True,
        busy_gb=6,
        idle_gb=1.2,
    ),
    Program(
        "triton_block",
        "plain Triton",
        ("more-warps", "larger-blocks", "fused-kernel", "half"),
        needs=("torch", "triton"),
        busy_gb=1.6,
        idle_gb=1.4,
        tolerance=0.05,
        scale=0,
    ),
    Program(
        "llama_train",
        "Hugging Face decoder with checkpointing, training",
        (
            "compile",
            "sdpa",
            "no-checkpointing",
            "padded-vocabulary",
            "fused-optimizer",
            "larger-batch",
        ),
        needs=_HF,
        busy_gb=11,
        idle_gb=2.6,
    ),
    Program(
        "jax_train",
        "plain JAX, training",
        ("jit-step", "jit-update", "bf16", "no-item", "larger-batch"),
        needs=("jax",),
        busy_gb=5,
        idle_gb=5,
    ),
    Program(
        "nanogpt_train",
        "plain PyTorch decoder, training",
        ("compile", "tf32", "bf16", "sdpa", "fused-gelu", "fused-optimizer", "larger-batch"),
        busy_gb=5,
        idle_gb=0.9,
    ),
    Program(
        "gan_train",
        "GAN of convolutions, training",
        ("compile", "bf16", "channels-last", "fused-optimizer", "no-item", "larger-batch"),
        busy_gb=3,
        idle_gb=0.9,
        tolerance=1.0,
    ),
)
"""Programs in an order of which every second, and every third, is a mixture of kinds."""


def named(change: str, finding: dict[str, object], text: str) -> bool:
    """Whether a finding names a change; `text` is its title and advice."""
    return any(_fits(code, str(finding["rule"]), text) for code in CHANGES[change].codes)


def _fits(code: str, rule: str, text: str) -> bool:
    wanted, _, word = code.partition("/")
    return rule == wanted and word.lower() in text.lower()


def chosen(names: Iterable[str], programs: tuple[Program, ...] = PROGRAMS) -> tuple[Program, ...]:
    """Return those of the programs that have these names, in their order; all without any."""
    wanted = set(names)
    unknown = wanted - {each.name for each in programs}
    if unknown:
        raise SystemExit(f"unknown programs: {', '.join(sorted(unknown))}")
    return tuple(each for each in programs if not wanted or each.name in wanted)
