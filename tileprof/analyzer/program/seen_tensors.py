"""Tensors that slow a Triton kernel down, as text and recorder agree on them.

In: a profile's sources and launches, and a kernel's name.  Out: each such tensor of the text
(`tensor_faults`) with what the launches were given for it, where all launches that were seen come
from the call in the text, with tensors that are alike.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.program.tensor_faults import Fault, TensorFault, tensor_faults
from tileprof.analyzer.program.triton.functions import TritonKernel
from tileprof.analyzer.program.triton.kernels import kernels_of, triton_kernels
from tileprof.profile import LaunchVariant, Tables, TensorArgument


def seen_tensors(
    tables: Tables, kernel: str, kind: Fault
) -> Iterator[tuple[TensorFault, TensorArgument, str]]:
    """Yield the tensors of a kernel with a fault of a kind, and the file of the call."""
    seen = [each for each in tables.launches if each.kernel == kernel]
    if len(seen) != 1 or seen[0].others:
        return
    (launch,) = seen
    text = tables.sources.get(launch.place.file, "")
    for each in tensor_faults(text, kernels_of(tables.sources.values(), text)):
        tensor = launch.tensor(each.parameter)
        if (
            (each.kernel, each.kind) == (kernel, kind)
            and launch.place.line in each.launch
            and tensor is not None
        ):
            yield each, tensor, launch.place.file


def seen_kernel(
    tables: Tables, name: str
) -> tuple[TritonKernel | None, tuple[LaunchVariant, ...]]:  # fmt: skip
    """Return a kernel of the texts with all its launches that were seen; None where several have
    its name, or where not all launches are told."""
    launches = tuple(each for each in tables.launches if each.kernel == name)
    if not launches or any(each.others for each in launches):
        return None, ()
    found = {
        each.name: each for text in tables.sources.values() if name in text
        for each in triton_kernels(text)
    }  # fmt: skip
    return found.get(name), launches
