"""Mangled names become C++; everything else stays as it is."""

from __future__ import annotations

import gc
import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

recorder = pytest.importorskip("tileprof.native._recorder")

ELEMENTWISE = (
    "_ZN2at6native29vectorized_elementwise_kernelI"
    "Li4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_"
)


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_Z3addPfi", "add(float*, int)"),
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
    assert recorder.demangled(mangled).replace("> >", ">>") == name.replace("> >", ">>")


@pytest.mark.parametrize(
    "name", ["", "a", "matmul", "triton_poi_fused_add_0", "_Z", "_Zebra", "add(float*)", "añadir"]
)
def test_other_names_stay(name: str) -> None:
    """What is not mangled, or only looks like it."""
    assert recorder.demangled(name) == name


@given(st.text(max_size=30))
def test_any_text_is_a_name(text: str) -> None:
    """Nothing that a driver hands over makes it fail."""
    assert isinstance(recorder.demangled("_Z" + text), str)
    if not text.startswith("_Z"):
        assert recorder.demangled(text) == text


def test_the_runtimes_memory_is_given_back() -> None:
    """15,000 names of 5,000 characters each would be 75 MB."""
    long = "_Z1fIJ" + "i" * 1_000 + "EEvv"
    assert recorder.demangled(long).startswith("void f<int, int,")
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(15_000):
        recorder.demangled(long)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000  # KB
