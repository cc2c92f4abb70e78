"""Mangled names become C++; everything else stays as it is."""

from __future__ import annotations

import ctypes
import gc
import resource
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprof.profiler import demangling
from tileprof.profiler.demangling import demangled

ELEMENTWISE = (
    "_ZN2at6native29vectorized_elementwise_kernelI"
    "Li4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_"
)


@pytest.fixture
def no_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without a C++ runtime."""

    def missing(name: str | None) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    demangling._demangler.cache_clear()
    demangled.cache_clear()
    yield
    demangling._demangler.cache_clear()
    demangled.cache_clear()


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_Z3addPfi", "add(float*, int)"),
        ("__Z3addPfi", "add(float*, int)"),
        ("_ZN12_GLOBAL__N_11kEv", "(anonymous namespace)::k()"),
        (
            ELEMENTWISE,
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
            "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, "
            "std::array<char*, 1ul>)",
        ),
    ],
)
def test_mangled_names(mangled: str, name: str) -> None:
    """As the C++ runtime writes them; spaces between closing brackets differ among runtimes."""
    assert demangled(mangled).replace("> >", ">>") == name.replace("> >", ">>")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "matmul",
        "triton_poi_fused_add_0",
        "_Z",
        "_Zebra",
        "_Z3addPfi\0",
        "add(float*)",
        "_Z\udcff",
    ],
)
def test_other_names_stay(name: str) -> None:
    """What is not mangled, or only looks like it."""
    assert demangled(name) == name


@given(st.text(max_size=30))
def test_any_text_is_a_name(text: str) -> None:
    """Nothing that a driver hands over makes it fail."""
    assert isinstance(demangled("_Z" + text), str)
    if not text.startswith(("_Z", "__Z")):
        assert demangled(text) == text


@pytest.mark.usefixtures("no_runtime")
def test_without_a_runtime_names_stay() -> None:
    """A missing library costs readability, nothing else."""
    assert demangled("_Z3addPfi") == "_Z3addPfi"


def test_the_runtimes_memory_is_given_back() -> None:
    """15,000 names of 5,000 characters each would be 75 MB."""
    demangle = demangling._demangler()
    assert demangle is not None
    long = b"_Z1fIJ" + b"i" * 1_000 + b"EEvv"
    assert demangle(long) is not None
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(15_000):
        demangle(long)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000  # KB
