"""Arrays as NumPy sees them; those of a GPU are copied to the host and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tileprof.runtime.arguments import as_array, describe


@dataclass(frozen=True, slots=True)
class Host:
    """An argument and an array that the kernel works on."""

    value: Any
    array: NDArray[Any]
    copied: Any = None
    """The copy on the host, of the argument's framework; None where the memory is shared."""

    @classmethod
    def of(cls, value: Any) -> Host:
        """Share the memory of a host array, copy any other."""
        spec = describe(value)
        if spec is None or spec.device == "cpu":
            return cls(value, as_array(value))
        copied = value.detach().cpu()
        return cls(value, as_array(copied), copied)

    def write_back(self) -> None:
        """Give the argument what the copy holds now."""
        if self.copied is not None:
            self.value.copy_(self.copied)
