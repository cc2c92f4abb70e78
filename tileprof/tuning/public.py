"""Names of `tileprof.tuning`, loaded when one is first used."""

from tileprof.tuning.autotuned import AutotunedFunction, autotune, set_autotune_inputs
from tileprof.tuning.configurations import Configuration
from tileprof.tuning.kept import Result, add_to_table, read_table
from tileprof.tuning.outcomes import Looked, Measured, Outcome
from tileprof.tuning.pruning.pruner import Pruned, TritonPruner, triton_pruner
from tileprof.tuning.pruning.ranking import Ranked
from tileprof.tuning.search import Settings, tuned
from tileprof.tuning.shipped import TunedKernels, load_tuned
from tileprof.tuning.subjects import Checks, KernelSubject, Tolerances, machine_of

__all__ = [
    "AutotunedFunction", "Checks", "Configuration", "KernelSubject", "Looked", "Measured",
    "Outcome", "Pruned", "Ranked", "Result", "Settings", "Tolerances", "TritonPruner",
    "TunedKernels", "add_to_table", "autotune", "load_tuned", "machine_of", "read_table",
    "set_autotune_inputs", "triton_pruner", "tuned",
]  # fmt: skip
