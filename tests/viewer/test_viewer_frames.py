"""Frames of libraries in a tree: which are shown, and that the numbers stay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.jax_recording import recording
from tests.viewer.samples import Nested, node, profile_of, with_children
from tileprof.analyzer import analyze
from tileprof.errors import UsageError
from tileprof.profile import (
    HIDDEN,
    Frames,
    Group,
    Metric,
    NativeModule,
    Profile,
    Symbol,
    Tables,
    as_shown,
    grouped,
    is_installed,
    leave_out,
    with_frames,
    without_native_libraries,
)
from tileprof.profile.transform.groups import told_apart
from tileprof.profile.transform.xla import THREADS
from tileprof.viewer import ViewOptions, render_view
from tileprof.viewer.chains import chains

LIB = "/usr/lib/python3.12/site-packages"
MODULE = f"{LIB}/torch/nn/modules/module.py"
MODEL = f"{LIB}/transformers/models/gpt2/modeling_gpt2.py"


def model() -> Profile:
    """A program that calls a model of two blocks' lines through the plumbing of modules."""

    def block(line: int, kernel: str, time: float) -> object:
        return with_children(
            node("frame", "Module._call_impl", f"{MODULE}:1790"),
            with_children(
                node("frame", "Block.forward", f"{MODEL}:{line}", cpu_time=5),
                with_children(
                    node("op", "aten::mm", count=2),
                    with_children(
                        node("api", "cuLaunchKernel", count=4, cpu_time=3),
                        node("kernel", kernel, time=time, count=4),
                    ),
                ),
            ),
        )

    return profile_of(
        with_children(
            node("frame", "main", "/home/me/train.py:30", cpu_time=1),
            with_children(
                node("frame", "Module._wrapped_call_impl", f"{MODULE}:1779", cpu_time=7),
                block(10, "gemm_a", 600),  # type: ignore[arg-type]
                block(12, "gemm_b", 400),  # type: ignore[arg-type]
            ),
            with_children(
                node("frame", "generate", f"{LIB}/transformers/generation/utils.py:9", cpu_time=2),
                node("kernel", "sample", time=50, count=1),
            ),
        )
    )


def paths(profile: Profile) -> set[str]:
    """The names on the way to each node, joined."""
    return {
        "/".join(profile.names[each] for each in profile.path(at)) for at in range(len(profile))
    }


def test_a_tree_has_the_users_frames_and_modules() -> None:
    """All lines of a module's forward pass are one node, and launches are no nodes."""
    shown = with_frames(model(), "user")
    assert paths(shown.profile) == {
        "main", "main/sample", "main/Block", "main/Block/aten::mm", "main/Block/aten::mm/gemm_a",
        "main/Block/aten::mm/gemm_b",
    }  # fmt: skip
    assert shown.left_out == 4


def called(name: str, *below: object) -> Nested:
    """PyTorch's frame around a call of a module, and what is in it."""
    return with_children(
        node("frame", name, f"{MODULE}:1779"),
        with_children(node("frame", "Module._call_impl", f"{MODULE}:1790"), *below),  # type: ignore[arg-type]
    )


def forward(name: str, *below: object) -> Nested:
    """The forward pass of a module of a library."""
    return with_children(node("frame", f"{name}.forward", f"{MODEL}:7"), *below)  # type: ignore[arg-type]


def test_modules_have_the_names_of_their_calls() -> None:
    """Those of containers, which are left out, are part of it; an unknown one is its class."""
    container = f"{LIB}/torch/nn/modules/container.py:9"
    linear = forward("Linear", node("kernel", "gemm", time=5, count=1))
    sequence = with_children(
        node("frame", "Sequential.forward", container), called("*.__call__", linear)
    )
    block = forward("Block", called("mlp.__call__", sequence), called("ln_1.__call__", linear))
    profile = profile_of(
        with_children(
            node("frame", "main", "/home/me/train.py:30"),
            called("h.*.__call__", block),
            called("Module._wrapped_call_impl", forward("Other", called("out.__call__", linear))),
        )
    )
    shown = with_frames(profile, "user").profile
    assert {
        "main/h.*: Block/mlp.*: Linear/gemm", "main/h.*: Block/ln_1: Linear/gemm",
        "main/Other/out: Linear/gemm",
    } <= paths(shown)  # fmt: skip
    groups = grouped(shown, "module")
    tops = {groups.names[each] for each in groups.roots()}
    assert tops >= {"h.*.mlp.*: Linear", "h.*.ln_1: Linear", "Other.out: Linear"}
    # The same where all that does some work is shown.
    assert "main/h.*: Block.forward/ln_1: Linear.forward/gemm" in paths(
        with_frames(profile, "library").profile
    )


def test_what_passes_on_alone_can_be_left_out() -> None:
    """Functions of libraries that do something stay, each line by itself."""
    shown = paths(with_frames(model(), "library").profile)
    assert {"main/Block.forward", "main/generate/sample"} <= shown
    assert not [path for path in shown if "call_impl" in path]


@pytest.mark.parametrize("frames", ["user", "library", "all"])
def test_totals_stay(frames: Frames) -> None:
    """Of the whole, and of what is shown; a visit of a launch is none of its operation."""
    before, after = model(), with_frames(model(), frames).profile
    after.check()
    for metric in ("time", "cpu_time"):
        assert after.whole[metric] == before.whole[metric]
        assert after.total(metric)[0] == before.total(metric)[0]
    (op,) = after.find("aten::mm") if frames == "user" else after.find("aten::mm")[:1]
    assert after.node(op).own("count") == (4 if frames == "user" else 2)


def test_frames_that_were_asked_for_stay() -> None:
    """`-i` names them."""
    assert any(
        "_call_impl" in path for path in paths(with_frames(model(), "user", "_call").profile)
    )


def test_views_say_what_is_not_shown() -> None:
    """And data has all of it unless it is asked not to."""
    text = render_view(model(), ViewOptions(), width=120)
    assert "main  train.py:30" in text
    assert "Not shown: 4 frames of libraries; `--frames all` shows them." in text
    assert "_call_impl" in render_view(model(), ViewOptions(frames="all"), width=120)
    assert "Module._call_impl" in render_view(model(), ViewOptions(), "json")
    assert "Module._call_impl" not in render_view(model(), ViewOptions(frames="user"), "json")
    with pytest.raises(UsageError, match="no choice of frames"):
        ViewOptions(frames="mine")  # type: ignore[arg-type]


def test_chains_are_one_line() -> None:
    """A node whose one child has all of its time is on the child's line, behind an arrow."""
    profile = with_frames(model(), "user").profile
    lines = chains(profile, profile.total("time"))
    drawn = [profile.names[each] for each in lines.nodes.tolist()]
    assert sorted(drawn) == ["aten::mm", "gemm_a", "gemm_b", "main", "sample"]
    (mm,) = profile.find("aten::mm")
    assert [profile.names[each] for each in lines.before[mm]] == ["Block"]
    assert "Block → aten::mm" in render_view(model(), ViewOptions(), width=120)


def test_a_thousandth_beside_a_child_needs_no_line() -> None:
    """What an operation takes on the host beside the one that it calls is no line of its own."""
    line = with_children(
        node("op", "aten::conv2d", cpu_time=2, count=1),
        with_children(
            node("op", "aten::convolution", cpu_time=3, count=1),
            node("op", "aten::mkldnn_convolution", cpu_time=995, count=1),
        ),
    )
    slow = with_children(node("op", "a", cpu_time=30), node("op", "b", cpu_time=970))
    tree = with_children(node("frame", "main", "a.py:3", cpu_time=9), line, slow)
    text = render_view(profile_of(tree), ViewOptions(threshold=0.1), width=120)
    assert "aten::conv2d → aten::convolution → aten::mkldnn_convolution" in text
    assert "a → b" not in text


def test_a_scope_and_a_phase_have_lines_of_their_own() -> None:
    """They are what somebody named, and where the backward pass begins."""
    tree = with_children(
        node("frame", "main", "a.py:3"),
        with_children(node("scope", "step", count=3), node("kernel", "k", time=9)),
    )
    text = render_view(profile_of(tree), ViewOptions(), width=100)
    assert "main a.py:3 → step" in text
    assert "└─ k" in text


def test_nodes_without_one_above_stay() -> None:
    """Their values have no other home."""
    profile = profile_of(with_children(node("frame", "top", "a.py:1"), node("kernel", "k", time=9)))
    assert paths(leave_out(profile, profile.depths == 0)[0]) == {"top", "top/k"}


def training() -> Profile:
    """A step: data, a forward pass in a module, its backward pass, the optimizer; after set-up."""

    def kernel(time: float, phase: str = "", kind: str = "kernel") -> Nested:
        return (Symbol(kind, f"{kind}_{time:g}", None, phase), {"time": time, "count": 1}, [])

    main = "/home/me/train.py"
    backward: Nested = (Symbol("op", "MmBackward0", None, "backward"), {}, [kernel(40, "backward")])
    return profile_of(
        with_children(
            node("frame", "main", f"{main}:7"),
            with_children(
                node("frame", "Block.forward", f"{MODEL}:10"),
                kernel(20),
                with_children(node("frame", "Linear.forward", f"{LIB}/torch/linear.py:5"),
                              with_children(node("op", "aten::mm"), kernel(30), backward)),
            ),
        ),
        with_children(
            node("frame", "main", f"{main}:8"),
            with_children(node("scope", "Optimizer.step#Adam.step"), kernel(5)),
        ),
        with_children(
            node("frame", "main", f"{main}:6"),
            with_children(node("scope", "enumerate(DataLoader)#__next__"), kernel(2)),
            kernel(3, kind="memcpy"),
            kernel(7, "set-up"),
        ),
    )  # fmt: skip


@pytest.mark.parametrize(("group", "times"), [
    ("phase", {"backward": 40, "forward": 50, "optimizer": 5, "data": 2, "copies": 3,
               "set-up": 7}),
    ("module", {"Linear": 70, "Block": 20, "(no module)": 17}),
    ("line", {"train.py:7": 90, "train.py:8": 5, "train.py:6": 12}),
])  # fmt: skip
def test_groups_hold_what_belongs_to_them(group: Group, times: dict[str, float]) -> None:
    """Each once; a module without those in it, a line with all that it leads to."""
    tree = grouped(with_frames(training(), "user").profile, group)
    tree.check()
    assert {tree.names[top]: tree.total("time")[top] for top in tree.roots()} == times
    text = render_view(training(), ViewOptions(group=group), width=120)
    assert all(name in text for name in times)


def test_a_training_step_in_a_closure_is_not_the_optimizers() -> None:
    """LBFGS, and Lightning: what `step(closure)` calls has phases of its own."""

    def kernel(time: float, phase: str = "") -> Nested:
        return (Symbol("kernel", f"kernel_{time:g}", None, phase), {"time": time, "count": 1}, [])

    adam, lightning = f"{LIB}/torch/optim/adam.py", f"{LIB}/lightning/closure.py"
    backward: Nested = (Symbol("op", "MmBackward0", None, "backward"), {}, [kernel(40, "backward")])
    closure = with_children(
        node("frame", "Closure.__call__", f"{lightning}:5"),
        with_children(node("frame", "Lit.training_step", "/home/me/train.py:9"),
                      with_children(node("frame", "Linear.forward", f"{LIB}/torch/nn/linear.py:5"),
                                    kernel(30), backward),
                      kernel(3)),
        with_children(node("scope", "Optimizer.zero_grad#Adam.zero_grad"), kernel(2)),
    )  # fmt: skip
    profile = profile_of(
        with_children(
            node("frame", "main", "/home/me/train.py:3"),
            with_children(
                node("scope", "Optimizer.step#Adam.step"),
                with_children(node("frame", "wrapper", f"{LIB}/torch/optim/optimizer.py:500"),
                              with_children(node("frame", "Adam.step", f"{adam}:10"), closure),
                              with_children(node("frame", "Adam.step", f"{adam}:20"), kernel(5))),
            ),
        )
    )  # fmt: skip
    for shown in (profile, with_frames(profile, "user").profile):
        tree = grouped(shown, "phase")
        times = {tree.names[top]: tree.total("time")[top] for top in tree.roots()}
        assert times == {"optimizer": 7, "backward": 40, "forward": 30, "others": 3}


def test_phases_of_a_program_that_samples_and_has_losses() -> None:
    """Losses and draws are told by the operation, or the module, that they are in."""
    linear, loss = f"{LIB}/torch/nn/modules/linear.py:9", f"{LIB}/torch/nn/modules/loss.py:7"

    def module(name: str, place: str, *children: Nested) -> Nested:
        return with_children(node("frame", f"{name}.forward", place), *children)

    drawn = with_children(
        node("op", "aten::multinomial", cpu_time=3), node("op", "aten::exponential_", cpu_time=30)
    )
    in_module = with_children(
        node("op", "aten::cross_entropy_loss", cpu_time=4),
        node("op", "aten::log_softmax", cpu_time=5),
    )
    profile = profile_of(
        node("frame", "<module>", "/w/a.py:1", cpu_time=900),
        with_children(
            node("frame", "main", "/w/a.py:9", cpu_time=7),
            module("Model", linear, node("op", "aten::linear", cpu_time=100), in_module),
            module("NLLLoss", loss, node("op", "aten::sub", cpu_time=2)),
            drawn,
        ),
        tables=Tables(sources={"/w/a.py": "import torch\n"}),
    )
    tree = grouped(with_frames(profile, "user").profile, "phase")
    assert {tree.names[top]: tree.total("cpu_time")[top] for top in tree.roots()} == {
        "imports": 900, "forward": 100, "loss": 11, "sampling": 33, "others": 7,
    }  # fmt: skip
    text = render_view(profile, ViewOptions(group="phase", depth=1), width=100).splitlines()
    order = [line.split()[-2] for line in text if line.endswith("  phase")]
    assert order == ["forward", "sampling", "loss", "others", "imports"]


def by_hand(text: str = "p -= lr * p.grad", model: str = "mlp", momentum: str = "sgd") -> Profile:
    """A step with a model of functions, and an update of that text in place."""
    lines = ["def mlp(x):", "    return x @ w", "def sgd(ps):", f"    {text}", "    v.mul_(0.9)",
             "def train():", "    for x in batches():", "        loss = mlp(x)",
             "        loss.backward()", "        sgd(ps)", "train()"]  # fmt: skip

    def line(function: str, number: int, *children: Nested, time: float = 0) -> Nested:
        frame = node("frame", function, f"/w/a.py:{number}", cpu_time=time)
        return with_children(frame, *children)

    def backward(name: str, time: float) -> Nested:
        return (Symbol("op", name, None, "backward"), {"cpu_time": time}, [])

    product = with_children(node("op", "aten::mm", cpu_time=100), backward("MmBackward0", 200))
    gradients = backward("torch::autograd::AccumulateGrad", 8)
    tree = line(
        "<module>", 11,
        line("train", 7, node("op", "aten::randn", cpu_time=30)),
        line("train", 8, line(model, 2, product, node("op", "aten::to", cpu_time=7), time=5)),
        line("train", 9, gradients, time=1),
        line("train", 10, line("sgd", 4, node("op", "aten::sub_", cpu_time=40)),
             line(momentum, 5, node("op", "aten::mul_", cpu_time=20))),
    )  # fmt: skip
    return profile_of(tree, tables=Tables(sources={"/w/a.py": "\n".join(lines)}))


def phases(profile: Profile) -> dict[str, float]:
    """The host's time of each phase."""
    tree = grouped(with_frames(profile, "user").profile, "phase")
    return {tree.names[top]: tree.total("cpu_time")[top] for top in tree.roots()}


def test_phases_of_a_step_without_modules_and_optimizers() -> None:
    """Operations with a backward pass are forward, changes of tensors by `.grad` the optimizer."""
    step = {"forward": 112, "backward": 208, "optimizer": 60, "others": 31}
    assert phases(by_hand()) == step
    assert phases(by_hand("p.data.add_(p.grad, alpha=-lr)")) == step
    # A function that computes other things too has its update at the line with the gradient.
    inline = phases(by_hand(model="sgd"))
    assert inline == step | {"optimizer": 40, "others": 51}
    for other in ("x -= x.mean()", "x -= torch.autograd.grad(y, x)[0]", "no_grad(update)(x)"):
        assert phases(by_hand(other)) == {"forward": 112, "backward": 208, "others": 91}


def test_lines_of_files_of_one_name_are_told_apart() -> None:
    """By as many folders as that takes; imports say so, and come last."""
    files = ("/w/app/utils.py", "/w/lib/utils.py", "/w/a.py", "/utils.py")
    assert told_apart(files) == {
        "/w/app/utils.py": "app/utils.py", "/w/lib/utils.py": "lib/utils.py", "/w/a.py": "a.py",
        "/utils.py": "/utils.py",
    }  # fmt: skip
    profile = profile_of(
        node("frame", "<module>", "/w/a.py:1", cpu_time=900),
        with_children(
            node("frame", "<module>", "/w/a.py:2", cpu_time=1),
            node("frame", "load", "/w/app/utils.py:7", cpu_time=40),
            node("frame", "save", "/w/lib/utils.py:7", cpu_time=30),
        ),
        tables=Tables(sources={"/w/a.py": "import torch\nrun()\n"}),
    )
    tree = grouped(with_frames(profile, "user").profile, "line")
    assert {tree.names[top]: tree.total("cpu_time")[top] for top in tree.roots()} == {
        "a.py:1 import": 900, "a.py:2": 1, "app/utils.py:7": 40, "lib/utils.py:7": 30,
    }  # fmt: skip
    text = render_view(profile, ViewOptions(group="line"), width=100)
    assert text.index("lib/utils.py:7") < text.index("a.py:1 import")


def test_what_is_in_no_module_comes_last() -> None:
    """Who groups by modules looks for modules; the rest folds by what it is of all."""
    text = render_view(net(), ViewOptions(group="module"), width=100)
    assert text.index("Net  module") < text.index("(no module)")


def test_paths_in_a_group_begin_below_it() -> None:
    """A module's, or a line's, own node is the group; phases have whole paths."""
    profile = with_frames(training(), "user").profile
    assert "Linear/aten::mm/MmBackward0/kernel_40" in paths(grouped(profile, "module"))
    assert "train.py:7/Block/Linear/aten::mm/kernel_30" in paths(grouped(profile, "line"))
    assert "backward/main/Block/Linear/aten::mm/MmBackward0" in paths(grouped(profile, "phase"))


@pytest.mark.parametrize(("name", "shown"), [
    ("XlaModule:#hlo_module=jit_loss_of,program_id=17242#", "jit_loss_of"),
    ("Thunk:#name=jit(f)/jvp(bhqk,bhkd->bhqd)/dot,hlo_op=gemm.3,unique_hlo_op_id=7#",
     "jit(f)/jvp(bhqk,bhkd->bhqd)/dot"),
    ("Thunk:#hlo_op=fusion.411,unique_hlo_op_id=515#", "fusion.411"),
    ("XlaPass:#name=fusion,module=jit_f,program_id=66#", "XlaPass fusion jit_f"),
    ("my scope:#1#", "my scope:#1#"),
])  # fmt: skip
def test_ranges_of_xla_have_the_names_of_jax(name: str, shown: str) -> None:
    """A function, an operation with its named scopes, or what XLA does to a module."""
    profile = profile_of(with_children(node("scope", name), node("kernel", "k", time=9)))
    assert with_frames(profile, "user").profile.names[0] == shown
    assert with_frames(profile, "all").profile.names[0] == name


def test_passes_of_xla_are_no_users_nodes() -> None:
    """Time of such frames is the compilation's; `--frames all` shows them."""
    profile = profile_of(
        with_children(
            node("scope", "XlaCompile:#module=jit_f#"),
            with_children(node("scope", "XlaPass:#name=fusion,program_id=6#"),
                          node("kernel", "k", time=9)),
        )
    )  # fmt: skip
    assert paths(with_frames(profile, "user").profile) == {"XlaCompile jit_f", "XlaCompile jit_f/k"}
    assert with_frames(profile, "all").profile == profile


def test_a_recording_of_jax_begins_with_the_program() -> None:
    """What XLA compiles and tries is one node behind it, and steps of graphs are below these."""
    text = render_view(recording(), ViewOptions(), width=100)
    shown = with_frames(recording(), "user")
    tree, moved = shown.profile, shown.moved
    own = {tree.names[top] for top in tree.roots() if tree.total("time")[top]}
    assert own - {HIDDEN.name} == {"<module>", THREADS}
    graph = "main/jit_summed/while.6/command_buffer_6/jit(summed)/while/body/eval_jaxpr/dot_general"
    assert f"<module>/{graph}/gemm_fusion_dot" in paths(tree)
    assert text.index("jit_trained") < text.index(THREADS)
    for at, to in enumerate(moved.tolist()):
        assert recording().kinds[at] != "kernel" or tree.names[to] == recording().names[at]


def test_another_thread_of_a_program_without_xla_stays() -> None:
    """And ranges of XLA that a program without JAX opens."""
    loose = with_children(node("api", "cuMemcpyAsync"), node("memcpy", "DtoH", time=9))
    trial = node("scope", "XlaModule:#hlo_module=gemm.1#", time=3)
    jax = node("frame", "bind", "/env/lib/python3.11/site-packages/jax/_src/core.py:9", time=5)
    assert "cuMemcpyAsync" in paths(with_frames(profile_of(loose, jax), "user").profile)
    assert "cuMemcpyAsync" in paths(with_frames(profile_of(loose, trial), "user").profile)
    tree = with_frames(profile_of(loose, trial, jax), "user").profile
    assert {f"{THREADS}/cuMemcpyAsync/DtoH", f"{THREADS}/gemm.1"} <= paths(tree)
    assert sum(tree.total("time")[top] for top in tree.roots()) == 17


def test_functions_of_ones_own_can_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of patterns names them; what is wrong in it is told with its line."""
    profile = profile_of(
        with_children(
            node("frame", "main", "/home/me/train.py:3"),
            with_children(node("frame", "retry.<locals>.run", "/home/me/tools/retry.py:9"),
                          node("kernel", "k", time=9)),
        )
    )  # fmt: skip
    assert "main/retry.<locals>.run/k" in paths(with_frames(profile, "user").profile)
    patterns = tmp_path / "frames.txt"
    patterns.write_text("# ours\n\ntools/.*\\.py  run  # tries again\n")
    monkeypatch.setenv("TILEPROF_PASSED_ON", str(patterns))
    shown = with_frames(profile, "user")
    assert paths(shown.profile) == {"main", "main/k"}
    assert shown.left_out == 1
    for wrong, said in (
        ("one", "line 1: `one` is not a file"),
        ("a (", "not a regular expression"),
    ):
        patterns.write_text(wrong)
        with pytest.raises(UsageError, match=said):
            with_frames(profile, "library")
    monkeypatch.setenv("TILEPROF_PASSED_ON", str(tmp_path / "nothing"))
    with pytest.raises(UsageError, match="cannot read"):
        with_frames(profile, "user")


def test_a_long_tree_is_folded_until_it_fits() -> None:
    """Nobody chose a threshold: the least of some that gives a screen; with one it is kept."""
    kernels = [node("kernel", f"k{number:03}", time=1000 + number) for number in range(90)]
    profile = profile_of(with_children(node("scope", "main"), *kernels))
    few = [node("kernel", f"k{number}", time=1000) for number in range(9)]
    assert "Folded" not in render_view(profile_of(*few), ViewOptions(), width=100)
    folded = render_view(profile, ViewOptions(), width=100)
    # No threshold gives a screen of kernels that are alike: the largest are shown.
    assert "Folded: 66 nodes no larger than these, together" in folded
    assert "k089" in folded
    assert "k066" in folded
    assert "k065" not in folded
    steps = [node("kernel", f"s{number}", time=1 << number) for number in range(40)]
    assert "nodes below 0.5 %" in render_view(profile_of(*steps), ViewOptions(), width=100)
    whole = render_view(profile, ViewOptions(threshold=0.5), width=100)
    assert len(whole.splitlines()) > 90
    assert len(render_view(profile, ViewOptions(mode="flat"), width=100).splitlines()) > 90


def net() -> Profile:
    """A module of the user's of which two lines call a layer each, and one two operations."""

    def at(line: int, *children: Nested) -> Nested:
        return with_children(
            node("frame", "Net.forward", f"/home/me/n.py:{line}", cpu_time=1), *children
        )

    def layer(cost: float) -> Nested:
        linear = node("frame", "Linear.forward", f"{LIB}/torch/nn/modules/linear.py:134")
        return with_children(linear, node("op", "aten::linear", cpu_time=cost))

    return profile_of(
        with_children(
            node("frame", "main", "/home/me/n.py:30", cpu_time=9),
            at(10, layer(100)),
            at(11, layer(70)),
            at(12, node("op", "aten::relu", cpu_time=50), node("op", "aten::add", cpu_time=20)),
        )
    )


def test_a_module_of_the_users_is_one_line() -> None:
    """Modules that its lines call hang on it; operations keep the line that calls them."""
    text = render_view(net(), ViewOptions(threshold=0), width=100)
    assert text.count("Net.forward  n.py") == 1
    assert "n.py:10" not in text
    assert "n.py:11" not in text
    assert text.index("Linear") < text.index("line  n.py:12") < text.index("aten::relu")
    made = as_shown(net(), "user").profile
    assert paths(made) == {
        "main", "main/Net.forward", "main/Net.forward/Linear",
        "main/Net.forward/Linear/aten::linear", "main/Net.forward/line",
        "main/Net.forward/line/aten::relu", "main/Net.forward/line/aten::add",
    }  # fmt: skip
    assert made.whole == net().whole
    assert made.total("cpu_time")[0] == 252
    module = made.names.index("Net.forward")
    assert made.total("cpu_time")[module] == 243
    for group, known in (("line", "n.py:10"), ("module", "Net  module")):
        assert known in render_view(net(), ViewOptions(group=cast(Group, group)), width=100)
    assert "n.py:10" in render_view(net(), ViewOptions(frames="library"), width=100)


def test_places_of_nodes_follow_into_whole_modules() -> None:
    """A page finds its nodes by those of the recording."""
    profile = net()
    shown = as_shown(profile, "user")
    for at, name in enumerate(profile.names):
        assert shown.profile.names[int(shown.moved[at])] in (name, "Linear", "line")
    totals = shown.profile.total("cpu_time")
    assert totals[shown.moved[profile.names.index("main")]] == profile.whole["cpu_time"]


def test_what_goes_on_comes_before_what_happens_once() -> None:
    """Imports and set-up are the longest part of short programs, and not looked for."""
    source = "import torch\nrun()\n"
    setup = node("frame", "<module>", "/w/a.py:2", cpu_time=500)
    profile = profile_of(
        node("frame", "<module>", "/w/a.py:1", cpu_time=900),
        (replace(setup[0], phase="set-up"), *setup[1:]),
        node("frame", "<module>", "/w/a.py:2", cpu_time=100),
        tables=Tables(sources={"/w/a.py": source}),
    )
    rows = [
        line for line in render_view(profile, ViewOptions(), width=90).splitlines() if "<" in line
    ]
    assert [row.rpartition("<module>")[2].strip() for row in rows] == [
        "a.py:2", "import a.py:1", "set-up a.py:2",
    ]  # fmt: skip


def test_the_hottest_operation_is_in_the_tree() -> None:
    """However small it is beside what happens once, with the path that leads there."""
    run = with_children(
        node("frame", "main", "/w/a.py:9", cpu_time=1),
        node("op", "aten::mm", cpu_time=3),
        node("op", "aten::add", cpu_time=2),
    )
    profile = profile_of(node("frame", "<module>", "/w/a.py:1", cpu_time=9_000), run)
    text = render_view(profile, ViewOptions(), width=90)
    assert "aten::mm" in text
    assert "aten::add" not in text
    assert "aten::mm" not in render_view(profile, ViewOptions(threshold=0.5), width=90)
    # That of a module comes before an optimizer's, or a sampler's.
    layer = with_children(
        node("frame", "Linear.forward", f"{LIB}/torch/nn/modules/linear.py:134"),
        node("op", "aten::linear", cpu_time=2),
    )
    text = render_view(profile_of(*[
        node("frame", "<module>", "/w/a.py:1", cpu_time=9_000),
        with_children(node("frame", "main", "/w/a.py:9"), layer,
                      node("op", "aten::div", cpu_time=3)),
    ]), ViewOptions(), width=90)  # fmt: skip
    assert "aten::linear" in text
    assert "aten::div" not in text


def test_the_largest_nodes_lead_to_an_operation() -> None:
    """Though each of a module's many operations is smaller than one somewhere else."""
    many = [node("op", f"aten::op{number}", cpu_time=300 + number) for number in range(40)]
    linear = node("frame", "Linear.forward", f"{LIB}/torch/nn/modules/linear.py:1")
    head = with_children(linear, node("op", "aten::head", cpu_time=2_000))
    block = with_children(
        node("frame", "Block.forward", f"{LIB}/net/m.py:1", cpu_time=9_000), *many
    )
    text = render_view(
        profile_of(with_children(node("frame", "main", "/w/a.py:9", cpu_time=90_000),
                                 with_children(block, *many), head)),
        ViewOptions(), width=90,
    )  # fmt: skip
    assert text.index("Block") < text.index("aten::op39") < text.index("aten::head")
    assert "aten::op38" not in text


def test_what_is_small_beside_imports_is_shown_if_it_is_large_in_what_goes_on() -> None:
    """A short program imports for longer than it runs; its set-up folds by what is of all."""
    work = with_children(
        node("frame", "main", "/w/a.py:9"),
        *(node("op", f"aten::op{cost}", cpu_time=cost) for cost in (60, 30, 9, 1)),
    )
    setup, _, parts = with_children(
        node("frame", "start", "/w/a.py:8"),
        *(node("op", f"aten::at{n}", cpu_time=9) for n in (1, 2)),
    )
    imports = node("frame", "<module>", "/w/a.py:1", cpu_time=99_000)
    early = (replace(setup, phase="set-up"), {"cpu_time": 900.0}, parts)
    profile = profile_of(imports, early, work, tables=Tables(sources={"/w/a.py": "import torch\n"}))
    text = render_view(profile, ViewOptions(), width=120)
    assert [cost for cost in (60, 30, 9, 1) if f"aten::op{cost} " in text] == [60, 30, 9, 1]
    assert "start" in text
    assert "aten::at1" not in text
    assert "below 0.5 % outside set-up and imports (in these: of all)" in text
    assert "aten::op60" not in render_view(profile, ViewOptions(threshold=0.5), width=120)


def test_a_coroutine_that_waits_is_shown_though_it_takes_nothing() -> None:
    """It was open for half of the time, which others ran in."""
    request = node("scope", "request", cpu_time=1, elapsed_time=5_000)
    short = node("scope", "short", cpu_time=1, elapsed_time=3)
    work = node("frame", "main", "/w/a.py:9", cpu_time=9_998)
    elapsed = Metric("elapsed_time", "ns")
    profile = profile_of(request, short, work, metrics={elapsed.name: elapsed})
    text = render_view(profile, ViewOptions(), width=100)
    assert "request" in text
    assert "short" not in text


def test_an_installed_program_is_the_users_own() -> None:
    """As with `run -m`: the package that the tree begins in, and no other."""
    tree = with_children(
        node("frame", "<module>", f"{LIB}/trainer/__main__.py:3"),
        with_children(node("frame", "fit", f"{LIB}/trainer/loop.py:30"),
                      with_children(node("frame", "helped", f"{LIB}/trainers/all.py:4"),
                                    node("kernel", "k", time=9))),
    )  # fmt: skip
    shown = with_frames(profile_of(tree), "user")
    assert paths(shown.profile) == {"<module>", "<module>/fit", "<module>/fit/k"}
    assert shown.left_out == 1


@pytest.mark.parametrize(("file", "installed"), [
    (f"{LIB}/torch/nn/modules/linear.py", True),
    ("/usr/lib/python3.12/contextlib.py", True),
    ("C:\\\\venv\\\\Lib\\\\site-packages\\\\torch\\\\x.py", True),
    ("/tmp/torchinductor_me/ab/cab.py", True),
    ("/tmp/torch_geometric.nn.conv.gat_conv_GATConv_propagate_h3_509er.py", True),
    ("/tmp/__autograph_generated_filez2x8k1_q.py", True),
    ("/tmp/train_language_model.py", False),
    ("/tmp/v1.2/train_language_model.py", False),
    ("<frozen importlib._bootstrap>", True),
    ("<ipython-input-3-4f5c>", False),
    ("/tmp/ipykernel_71/2390.py", False),
    ("/home/me/train.py", False),
])  # fmt: skip
def test_whose_a_file_is(file: str, installed: bool) -> None:
    """Cells of notebooks are the user's; generated texts are not."""
    assert is_installed(file) is installed


FRAMES: tuple[Frames, ...] = ("user", "library", "all")
NATIVE = "/usr/local/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so"


def native() -> Profile:
    """A program with functions in C++: PyTorch's, one of the user's, and CUDA's in the user's."""
    profile = profile_of(
        with_children(
            node("frame", "main", "/home/me/train.py:30"),
            with_children(
                node("op", "mine::scale", count=1),
                with_children(
                    node("frame", "c10::impl::call", f"{NATIVE}:0"),
                    with_children(
                        node("frame", "scale", "/home/me/scale.cu:12"),
                        with_children(
                            node("frame", "cudaLaunchKernel", "[libcudart_static.a]:0"),
                            with_children(
                                node("api", "cuLaunchKernel", count=1),
                                node("kernel", "scale", time=100, count=1),
                            ),
                        ),
                    ),
                ),
            ),
        )
    )
    tables = replace(profile.tables, native_modules=(NativeModule(NATIVE, "ab12"),))
    return replace(profile, tables=tables)


def test_native_functions_of_libraries_are_left_out_as_pythons_are() -> None:
    """Those of the user stay; plumbing goes from the view of libraries too."""
    shown = {frames: set(with_frames(native(), frames).profile.names) for frames in FRAMES}
    assert shown["user"] == {"main", "mine::scale", "scale"}
    assert shown["all"] - shown["library"] == {"c10::impl::call"}
    assert "cudaLaunchKernel" in shown["library"]


def test_advice_is_about_python_and_the_users_native_functions() -> None:
    """Analyses see a kernel's path without the functions of libraries; totals stay."""
    names = ["main", "mine::scale", "scale", "cuLaunchKernel", "scale"]
    shown = without_native_libraries(native())
    assert shown.names == names
    assert analyze(native()).program.profile.names == names
    assert shown.whole == native().whole


def test_a_line_that_imports_says_so() -> None:
    """Of a short program, imports are most of the time: a line number alone tells nothing."""
    file = "/home/me/a.py"
    profile = profile_of(
        node("frame", "<module>", f"{file}:1", cpu_time=9),
        node("frame", "<module>", f"{file}:2", cpu_time=5),
        node("frame", "<module>", f"{file}:9", cpu_time=3),
        tables=Tables(sources={file: "import torch\nprint(torch.ones(3))\n"}),
    )
    text = render_view(profile, ViewOptions(), width=100)
    assert "<module>  import a.py:1" in text
    assert text.count("import") == 1


def test_turned_over_views_put_imports_last_and_leave_callers_of_libraries_out() -> None:
    """A line that imports has what its library does then; hot functions of libraries remain."""
    library = "/x/site-packages/lib"
    tree = with_children(
        node("frame", "<module>", "/w/train.py:1"),
        with_children(
            node("frame", "<module>", f"{library}/__init__.py:3", cpu_time=6e6),
            node("frame", "helper", f"{library}/core.py:5", cpu_time=2e6),
        ),
    )
    work = with_children(
        node("frame", "<module>", "/w/train.py:3"),
        with_children(
            node("frame", "wrapper", f"{library}/wrap.py:9"),
            node("frame", "hot", f"{library}/core.py:7", cpu_time=2e6),
        ),
    )
    profile = profile_of(
        tree, work, tables=Tables(sources={"/w/train.py": "import lib\n\nlib()\n"})
    )
    hot = ["hot", "core.py:7"]
    flat = render_view(profile, ViewOptions(mode="flat"), width=90)
    assert [line.split()[-len(hot) :] for line in flat.splitlines()[2:4]] == [
        hot,
        ["import", "train.py:1"],
    ]
    turned = render_view(profile, ViewOptions(mode="bottom-up"), width=90)
    assert [line.split()[-len(hot) :] for line in turned.splitlines()[2:5]] == [
        hot,
        ["<module>", "train.py:3"],
        ["import", "train.py:1"],
    ]
    assert "8.00 ms" in turned
    whole = render_view(profile, ViewOptions(mode="bottom-up", frames="all"), width=90)
    assert "wrapper" in whole
    assert "helper" in whole
