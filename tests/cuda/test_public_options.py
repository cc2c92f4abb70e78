"""`target`, `controls` and `strict` as an author gives them: what is refused, what is told, what is
kept with the kernel.  Nothing here needs a GPU."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tests.cuda.public_kernels import left_early, numbers_of_blocks, product, wished
from tileprof.compiler import Remark, compile_kernel, program
from tileprof.compiler.cuda.controls import Controls, controls_of, parse_controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import EmulationError, emulate
from tileprof.errors import KernelError, UsageError
from tileprof.remarks import Decision, Rejection
from tileprof.remarks.common import BlocksNamed
from tileprof.remarks.copies import CpAsync, LoadsAndStores
from tileprof.remarks.launches import Clusters, PersistentCandidate, RowGroups
from tileprof.remarks.loops import RunsAhead
from tileprof.remarks.measured import NotMeasured
from tileprof.remarks.products import GemmInstruction
from tileprof.runtime.cuda.binary import CudaBinary
from tileprof.runtime.cuda.binary_file import read_binary, write_binary
from tileprof.runtime.launch import LoadedKernel

TARGETS = pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
NO_WAVES: dict[str, Any] = {"extents": (128 * 30, 128 * 30, 64), "stages": 2}
"""More tiles than blocks that fit at once, and little to compute."""


def refused(function: Any, line: str, **options: Any) -> str:
    """The message and the hint of a kernel that is not compiled; it stands at a line."""
    with pytest.raises(KernelError) as caught:
        tileprof.compile(function, **options)
    error = caught.value
    assert error.location is not None
    source = Path(error.location.file).read_text().splitlines()
    assert source[error.location.line - 1].strip().startswith(line)
    return f"{error.message}\n{error.hint}"


def lowered(function: Any, target: str = "sm_90a", **controls: Any) -> CudaProgram:
    """The kernel for a target."""
    kernel = compile_kernel(tileprof.compile(function).traced).kernel
    return compile_cuda(kernel, find_target(target), Controls(**controls))


def chosen(made: Any, subject: str) -> Decision:
    """Return the compiler's decision about the op with this kind and name."""
    found: Decision = next(each.decision for each in made.remarks if each.subject == subject)
    return found


def instruction(made: Any) -> str:
    """The instruction of its product."""
    decision = chosen(made, "gemm")
    assert isinstance(decision, GemmInstruction)
    return decision.instruction


# -- what cannot run


@pytest.mark.parametrize(("target", "fits"), [("sm_90a", 7), ("sm_80", 5)])
def test_too_many_stages(target: str, fits: int) -> None:
    """The buffers with their stages, and how many would fit, which is then compiled."""
    message = refused(product(stages=8), "with T.Kernel", target=target)
    assert "shared memory in a block" in message
    assert "A_shared 128 KB in 8 stages, B_shared 128 KB in 8 stages" in message
    assert f"num_stages={fits} needs " in message
    tileprof.compile(product(stages=fits), target=target)
    assert "fits" in refused(product(stages=fits + 1), "with T.Kernel", target=target)


@pytest.mark.spread("sm_80")
@TARGETS
def test_too_many_threads(target: str) -> None:
    """1,024 are allowed, and leave no room for a producer."""
    assert "a block of 2048 threads" in refused(
        product(threads=2048), "with T.Kernel", target=target
    )
    made = tileprof.compile(product(threads=1024), target=target)
    assert isinstance(chosen(made, "copy A → A_shared"), CpAsync)
    assert "__launch_bounds__(1024" in made.get_kernel_source()


def test_sums_that_do_not_fit_into_registers() -> None:
    """512 registers of a thread; the smaller tile that is proposed compiles."""
    message = refused(product(tile=(256, 256, 64)), "T.gemm", target="sm_90a")
    assert message.startswith("the sums of a tile of 256 x 256 take 512 registers of each of 128")
    assert "as 128 x 128" in message
    tileprof.compile(product(tile=(128, 128, 64)), target="sm_90a")


def test_sums_under_a_limit_of_registers() -> None:
    """The author's limit counts."""
    message = refused(product(), "T.gemm", target="sm_90a", controls={"registers": 96})
    assert "take 128 registers of each of 128 threads; a thread has 96" in message


@pytest.mark.spread("sm_90a")
@TARGETS
def test_grids(target: str) -> None:
    """Blocks are numbered along one axis, so the second extent may be beyond 65,535."""
    message = refused(product(grid=(70_000, 70_000)), "with T.Kernel", target=target)
    assert "has 70,000 x 70,000 blocks; a launch has at most 2,147,483,647" in message
    columns, rows = 3, 70_000
    made = lowered(numbers_of_blocks(columns, rows), target)
    numbers = np.zeros(columns, np.int32)
    last = [(rows - 1) * columns + at for at in range(columns)]
    emulate(made.source, made.kernel, [numbers], blocks=[0, *last])
    np.testing.assert_array_equal(numbers, np.arange(columns) + rows - 1)


# -- targets


def test_a_target_says_what_remarks_and_source_are_of() -> None:
    """TileLang's form of a target too; one that is none of ours says nothing."""
    for target in ("sm_90a", "cuda -arch=sm_90a"):
        made = tileprof.compile(product(), target=target)
        assert instruction(made) == "wgmma"
        assert any(each.op == "occupancy" for each in made.remarks)
        assert "tp_wgmma" in made.get_kernel_source()
    made = tileprof.compile(product(), target="auto")
    assert all(each.op != "gemm" for each in made.remarks)
    assert "tp_wgmma" not in made.get_kernel_source()


def test_without_a_target_the_device_of_the_last_load_counts() -> None:
    """What runs on a GPU has the remarks and the text of its binary."""
    pytest.importorskip("cuda.bindings.nvrtc")
    kernel = tileprof.compile(product())
    binary = CudaBinary.of(kernel.program.kernel, kernel.program.lowered("sm_80"), ptx=False)
    held: Any = SimpleNamespace(binary=binary)
    kernel.variant._loaded["cuda:0", "off"] = LoadedKernel(kernel.program, "cuda:0", held)
    assert instruction(kernel) == "mma"
    assert any(each.op == "occupancy" for each in kernel.remarks)
    assert kernel.get_kernel_source() == binary.text


def test_a_decorator_lowers_when_it_compiles() -> None:
    """The mistakes of an eager kernel are told at its first call, wherever that runs."""

    @tileprof.jit(target="sm_90a")
    def large(A):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        N = T.dynamic("N")
        A: T.Tensor((N,), T.float32)  # type: ignore[no-redef, valid-type]
        with T.Kernel(1, threads=128):
            held = T.alloc_shared((80_000,), T.float32)
            for i in T.Parallel(80_000):
                held[i] = A[i]
            for i in T.Parallel(80_000):
                A[i] = held[79_999 - i]

    with pytest.raises(KernelError, match=r"needs 312.5 KB of shared memory .* has 227 KB"):
        large(np.zeros(80_000, np.float32))


# -- controls


def test_controls_change_the_lowering() -> None:
    """By object and by dict; what differs from the default stands in the text."""
    for controls in (Controls(tma=False, stages=3), {"tma": False, "stages": 3}):
        made = tileprof.compile(product(), target="sm_90a", controls=controls)
        assert made.controls == Controls(tma=False, stages=3)
        assert chosen(made, "copy A → A_shared") == CpAsync(16)
        assert chosen(made, "loop k") == RunsAhead(3)
        assert "// controls: stages=3, tma=false\n" in made.get_kernel_source()
    assert "// controls" not in tileprof.compile(product(), target="sm_90a").get_kernel_source()


def test_each_control_is_kept() -> None:
    """Of a decorator, for the kernels that its function makes."""

    @tileprof.jit(controls={"wgmma": False, "swizzle": False}, target="sm_90a")
    def factory():  # type: ignore[no-untyped-def]  # noqa: ANN202
        @T.prim_func
        def copied(A: T.Tensor((64,), T.float32), B: T.Tensor((64,), T.float32)):  # type: ignore[no-untyped-def, valid-type]  # noqa: ANN202
            with T.Kernel(1, threads=64):
                for i in T.Parallel(64):
                    B[i] = A[i]

        return copied

    assert factory().controls.changed() == {"swizzle": False, "wgmma": False}


@pytest.mark.spread("sm_90a")
@TARGETS
def test_one_copy_is_synchronous(target: str) -> None:
    """By the name of its buffer or its tensor, or by a wish at the copy itself."""
    named = [
        tileprof.compile(product(), target=target, controls={"synchronous": name})
        for name in ("B", "B_shared")
    ]
    for given in (*named, tileprof.compile(wished(prefer_instruction="sync"), target=target)):
        # Resources that ptxas reports take most of the time to compute, and are not tested here.
        made = given.program.lowered(target)
        assert chosen(made, "copy B → B_shared") == LoadsAndStores()
        assert isinstance(chosen(made, "copy A → A_shared"), CpAsync)


def test_a_synchronous_copy_gives_the_same() -> None:
    """On the emulated machine."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, (256, 256)).astype(np.float16) for _ in range(2))
    made = lowered(product(extents=(256, 256, 256)), synchronous=("B_shared",))
    c = np.zeros((256, 256), np.float16)
    emulate(made.source, made.kernel, [a, b, c])
    np.testing.assert_array_equal(c, a @ b)


def test_wishes_of_a_copy() -> None:
    """TileLang's keywords: no TMA, and what is preferred."""
    for wish in ({"disable_tma": True}, {"prefer_instruction": "cp_async"}):
        made = tileprof.compile(wished(**wish), target="sm_90a", strict=True)
        assert isinstance(chosen(made, "copy B → B_shared"), CpAsync)


@pytest.mark.parametrize(
    ("controls", "message"),
    [
        ({"tmaa": False}, "there is no control `tmaa`\nDid you mean `tma`? Controls are: "),
        ({"tma": 3}, "the control `tma` cannot be 3\nIt is true or false."),
        ({"stages": 0}, "the control `stages` cannot be 0\nIt is a positive whole number or none."),
        ({"registers": 7}, "cannot be 7\nIt is a whole number from 24 to 255 or none."),
        ({"synchronous": [1]}, "the control `synchronous` cannot be (1,)\nIt is a tuple of names."),
        ({"synchronous": "Q"}, "names `Q`, which `matmul` has not\nIt has: A, B, C, A_shared, "),
        ("tma=off", "controls cannot be 'tma=off'\nThey are `tileprof.Controls(tma=False)`"),
    ],
)
def test_controls_that_do_not_exist(controls: Any, message: str) -> None:
    """A sentence, a place and what there is."""
    with pytest.raises(UsageError) as caught:
        tileprof.compile(product(), target="sm_90a", controls=controls)
    assert message in f"{caught.value.message}\n{caught.value.hint}"
    assert caught.value.location is not None


def test_controls_of_the_command_line() -> None:
    """What is shown can be given again."""
    made = Controls(tma=False, stages=2, synchronous=("A", "B"), persistent=True)
    assert str(made) == "stages=2, synchronous=A+B, tma=false, persistent=true"
    assert parse_controls(str(made).split(", ")) == made
    assert controls_of(made.changed()) == made
    assert str(Controls()) == ""


def test_a_file_keeps_the_controls(tmp_path: Path) -> None:
    """With each binary, and in the kernel that is read again."""
    pytest.importorskip("cuda.bindings.nvrtc")
    kernel = tileprof.compile(product(), controls={"tma": False, "registers": 168})
    kernel.save(tmp_path / "matmul.tpk", targets=["sm_90a"])
    held = json.loads(zipfile.ZipFile(tmp_path / "matmul.tpk").read("kernel.json"))
    assert [v["controls"] for v in held["variants"]] == [{"registers": 168, "tma": False}] * 2
    assert tileprof.load_kernel(tmp_path / "matmul.tpk").controls == kernel.controls
    # What ptxas says is there too.
    assert any(each["op"] == "occupancy" for each in held["variants"][0]["remarks"])


# -- strict


@TARGETS
def test_strict_takes_what_misses_nothing(target: str) -> None:
    """The plain matrix product; on sm_80 its result goes out in pieces of sectors."""
    pytest.importorskip("cuda.bindings.nvrtc")
    if target == "sm_90a":
        tileprof.compile(product(), target=target, strict=True)
    else:
        assert "sectors a request" in refused(
            product(), "T.copy(C_local", target=target, strict=True
        )


@pytest.mark.spread(without=["wrong0-T.gemm-reasons0"])
@pytest.mark.parametrize(
    ("wrong", "line", "reasons"),
    [
        ({"tile": (128, 128, 8)}, "T.gemm", ["not wgmma: K=8 is not a multiple of 16"]),
        ({"threads": 64}, "T.gemm", ["not wgmma: threads=64", "are spilled to local memory"]),
        # Rows of 1,032 bytes: neither TMA nor 16 bytes a thread.
        ({"extents": (512, 516, 512)}, "T.copy(B", ["not tma: row stride 1032 B is not a mult"]),
    ],
)
def test_strict_refuses(wrong: dict[str, Any], line: str, reasons: list[str]) -> None:
    """At the first line, with every reason and the ways out."""
    pytest.importorskip("cuda.bindings.nvrtc")
    message = refused(product(**wrong), line, target="sm_90a", strict=True)
    assert "missed, which `strict` does not allow" in message
    assert all(each in message for each in reasons)
    assert message.endswith("\nRemove the reasons, or compile without `strict`.")
    tileprof.compile(product(**wrong), target="sm_90a")


def test_strict_refuses_loads_that_cannot_run_ahead() -> None:
    """The copies of a loop that may be left early are waited for at once."""
    pytest.importorskip("cuda.bindings.nvrtc")
    message = refused(left_early(), "T.copy(A[0", target="sm_90a", strict=True)
    assert "not 2 stages: the loop may be left early" in message


@pytest.mark.spread("tma", "wgmma")
@pytest.mark.parametrize("forbidden", ["async_copy", "tma", "wgmma", "tensor_cores"])
def test_strict_does_not_ask_for_what_is_forbidden(forbidden: str) -> None:
    """The author's own controls are no reason."""
    made = tileprof.compile(product(), target="sm_90a", controls={forbidden: False})
    # Resources that ptxas reports take most of the time to compute, and are not tested here.
    said = made.program.lowered("sm_90a").remarks
    missed = {each.subject for each in said if each.severity == "missed"}
    assert not missed & {"gemm", "copy A → A_shared", "copy B → B_shared", "loop k"}


def test_strict_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a kernel runs on the cpu, strict is about that."""
    missed = Remark(NotMeasured(), "scope", "f", severity="missed")
    monkeypatch.setattr(program, "collect", lambda kernel: (missed,))

    def doubled(A):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        A: T.Tensor((8,), T.float32)  # type: ignore[no-redef, valid-type]
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                A[i] = A[i] + A[i]

    with tileprof.device("cpu"):
        tileprof.jit(doubled)(np.ones(8, np.float32))
        with pytest.raises(KernelError, match="a faster form is missed"):
            tileprof.jit(strict=True)(doubled)(np.ones(8, np.float32))


# -- what a profile keeps


def test_a_profile_keeps_all_remarks_and_the_controls() -> None:
    """Those of the passes and those of ptxas; the controls are metadata of the kernel."""
    pytest.importorskip("cuda.bindings.nvrtc")
    kernel = tileprof.compile(product(threads=96), controls={"rasterize": False})
    made = kernel.program.lowered("sm_90a")
    binary = CudaBinary.of(kernel.program.kernel, made, ptx=False)
    held: Any = SimpleNamespace(binary=binary)
    info = LoadedKernel(kernel.program, "cuda:0", held).info()
    assert info.remarks == tuple(made.all_remarks)
    assert {"gemm", "ptxas", "occupancy"} <= {each.op for each in info.remarks}
    assert info.attributes == {
        "instrument": "off", "target": "sm_90a", "controls": "rasterize=false"
    }  # fmt: skip
    read = read_binary(write_binary(binary), binary.image, kernel.program.kernel)
    assert read.controls == kernel.controls


# -- blocks that say something


def test_blocks_that_say_something_keep_their_numbers() -> None:
    """Neither persistent nor renumbered; a remark says so."""
    free = lowered(product(**NO_WAVES))
    assert free.source.launches[0].persistent
    assert not free.source.launches[0].in_order
    for told in ("print", "assert"):
        made = lowered(product(**NO_WAVES, told=told))
        (spec,) = made.source.launches
        assert (spec.persistent, spec.in_order) == (0, True)
        reasons = [r for each in made.remarks if each.op == "launch" for r in each.rejected]
        assert reasons == [
            Rejection(RowGroups(), BlocksNamed()), Rejection(PersistentCandidate(), BlocksNamed())
        ]  # fmt: skip


def test_blocks_that_say_something_form_no_clusters() -> None:
    """Blocks of a cluster are numbered otherwise."""
    assert lowered(product(), cluster=2).source.launches[0].cluster == 2
    made = lowered(product(told="print"), cluster=2)
    assert made.source.launches[0].cluster == 1
    candidates = [r.candidate for each in made.remarks for r in each.rejected]
    assert Clusters(2) in candidates


def test_prints_come_from_their_blocks() -> None:
    """On the emulated machine: the number of a block is that of its tile."""
    made = lowered(product(extents=(1024, 256, 64), told="print"))
    arrays = [np.zeros(s, np.float16) for s in ((1024, 64), (64, 256), (1024, 256))]
    printed = emulate(made.source, made.kernel, arrays)
    assert sorted((p.block % 2 * 100 + p.block // 2, p.words[0]) for p in printed) == sorted(
        (bx * 100 + by, bx * 100 + by) for bx in range(2) for by in range(8)
    )


def test_a_failed_assertion_names_its_block() -> None:
    """The first column of blocks passes."""
    made = lowered(product(extents=(1024, 256, 64), told="assert"))
    arrays = [np.zeros(s, np.float16) for s in ((1024, 64), (64, 256), (1024, 256))]
    with pytest.raises(EmulationError) as caught:
        emulate(made.source, made.kernel, arrays)
    assert caught.value.failure is not None
    assert caught.value.failure.block % 2 == 1
