"""Names of C++ kernels in few cells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.viewer.gpu_samples import ADD, COPY, GEMM
from tileprof.viewer.grid import Label
from tileprof.viewer.kernel_names import short_forms
from tileprof.viewer.text import UNICODE, width_of


def test_parts_give_way_from_the_inside() -> None:
    """Signature, namespaces, inner arguments, outer arguments."""
    assert short_forms(ADD) == (
        "at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
        "std::array<char*, 3ul> >",
        "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul>>",
        "vectorized_elementwise_kernel<4, CUDAFunctor_add<…>, array<…>>",
        "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, …>",
        "vectorized_elementwise_kernel<4, CUDAFunctor_add<…>, …>",
        "vectorized_elementwise_kernel<4, …>",
        "vectorized_elementwise_kernel",
    )


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("add(float*, int)", "add"),
        ("void f<int>(int)", "f<int>"),
        (COPY, "elementwise_kernel<128, 2, gpu_kernel_impl_nocast<direct_copy_kernel_cuda>>"),
        ("void (anonymous namespace)::f<1, (a::E)2>(int)", "f<1, (E)2>"),
        ("cub::Reduce<cub::Policy<int>::Policy600, int*>(int*)", "Reduce<Policy600, int*>"),
        ("void k<&ns::S::operator<, 1>(int)", "k<operator<, 1>"),
        ("void w<std::vector<int>*>(int)", "w<vector<int>*>"),
        ("f(int)::{lambda(int)#1}::operator()(int) const", "f"),
    ],
)
def test_what_tells_most_stays(name: str, form: str) -> None:
    """Functions around lambdas, casts, operators and pointers are understood."""
    assert form in short_forms(name)


def test_a_wrapper_keeps_what_it_wraps() -> None:
    """A template around one other thing says nothing without it."""
    assert short_forms("void cutlass::Kernel2<cutlass_80_gemm_128x64>(Params)") == (
        "cutlass::Kernel2<cutlass_80_gemm_128x64>",
        "Kernel2<cutlass_80_gemm_128x64>",
    )


@pytest.mark.parametrize(
    "name",
    ["matmul", GEMM, "triton_poi_fused_add_0", "make.<locals>.kernel", "f<(1", "a)(b::c", ""],
)
def test_other_names_have_one_form(name: str) -> None:
    """What is no C++, or none that is understood, is cut in its middle as any name."""
    assert short_forms(name) == ()


@pytest.mark.parametrize(
    "name", ["f" + "<g" * 3_000 + ">" * 3_000 + "(int)", "f<a" * 50 + ">" * 50]
)
def test_names_nested_without_end(name: str) -> None:
    """Depth costs no recursion, and no time."""
    assert all(len(form) < len(name) for form in short_forms(name))


_PIECES = st.sampled_from(
    [
        "a",
        "ns::",
        "<",
        ">",
        "(",
        ")",
        ", ",
        "{lambda(int)#1}",
        "operator()",
        "::",
        " ",
        "const",
        "*",
    ]
)


@given(st.lists(_PIECES, max_size=25).map("".join), st.integers(1, 40))
def test_whatever_the_name_a_label_fits(name: str, room: int) -> None:
    """Forms are shorter than the name, longest first, and the one that is shown fits."""
    forms = short_forms(name)
    lengths = [len(form) for form in (name, *forms)]
    assert lengths == sorted(lengths, reverse=True)
    assert all(forms)
    shown = Label(name, shorter=forms).fitted(room, UNICODE)
    assert width_of(shown) <= room
    assert bool(shown) == bool(name)
    if len(name) <= room:
        assert shown == name
