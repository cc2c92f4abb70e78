"""Causes that the text of a program shows beside its recording: repeated calls, recurrences; and
those of JAX, of doubles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analyzer.made import found, only
from tests.analyzer.steps import MS, Step
from tests.forked_programs import tileprof
from tileprof.analyzer import analyze
from tileprof.analyzer.program import calls
from tileprof.analyzer.program.calls import carried, twins
from tileprof.errors import Location
from tileprof.profile import Profile, Tables, TreeBuilder, load

LIBRARY = "/env/lib/python3.11/site-packages/"
TWICE = """\
import torch
from torch import nn
torch.set_num_threads(1)
x, other = torch.randn(2, 256, 256)
model = torch.nn.Linear(256, 256)
for step in range(40):
    with torch.no_grad():
        y = model(x)
        z = model(x)
        total = (y + z).sum().item()
"""
NEEDED_TWICE = """\
import torch
from torch import nn
torch.set_num_threads(1)
x, other = torch.randn(2, 256, 256)
model = nn.Linear(256, 256)
random = nn.Sequential(nn.Linear(256, 256), nn.Dropout(0.1))
empty = torch.zeros_like
with torch.no_grad():
    for step in range(40):
        y = model(x)
        z = model(other)
        total = (y + z).sum().item()
    for step in range(40):
        y = random(x)
        z = random(x)
        total = (y + z).sum().item()
    for step in range(4000):
        y = empty(x)
        z = empty(x)
        total = (y + z).sum().item()
"""
CELL = """\
import torch
from torch import nn

class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.x, self.h = nn.Linear(16, 64), nn.Linear(16, 64)

    def forward(self, x, h, c):
        i, f, g, o = (self.x(x) + self.h(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = Cell(), nn.Linear(16, 10)

    def forward(self, x):
        h = c = x.new_zeros(len(x), x.shape[2])
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], h, c)
        return self.out(h)

torch.set_num_threads(1)
model = Model()
for _ in range(20):
    model(torch.randn(4, 64, 16)).sum().backward()
"""
LAYERS = """
class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.LayerNorm(16) for _ in range(12))
        self.out = nn.Linear(16, 9)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.out(x)

layers = Layers()
for _ in range(20):
    layers(torch.randn(4, 16)).sum().backward()
"""


def recorded(text: str, folder: Path) -> Profile:
    """A program, run and recorded."""
    (folder / "program.py").write_text(text, encoding="utf-8")
    tileprof(folder, ["run", "--quiet", "-o", "held.tprof", "program.py"])
    profile = load(folder / "held.tprof")
    if "no C++ compiler" in profile.tables.provenance["torch operations"]:
        pytest.skip("operations of PyTorch are not observed here")
    assert profile.find(kind="op")
    return profile


def test_the_same_call_twice(tmp_path: Path) -> None:
    """The second one is where the change is; at most its time goes, and nothing for sure."""
    finding = only(recorded(TWICE, tmp_path), "same-product")
    assert finding.title == "model(x) is called twice in a row at program.py:9"
    assert finding.confidence == "low"
    gain = finding.program_gain
    assert gain is not None
    assert gain.low == 1
    assert 1.05 < gain.mid == gain.high < 2.5


def test_calls_that_are_needed_twice(tmp_path: Path) -> None:
    """Other inputs, random results, and tensors that are there to be changed."""
    assert not found(recorded(NEEDED_TWICE, tmp_path), "same-product")


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("y = f(x)\nz = f(x)", [("f(x)", 1, 2)]),
        ("y = f(x)\nw = g(y)\nz = f(x)", [("f(x)", 1, 3)]),
        ("y = f(x)\nx = f(x)", [("f(x)", 1, 2)]),
        ("x = f(x)\nz = f(x)", []),
        ("y = f(x)\nx.add_(1)\nz = f(x)", []),
        ("y = f(x)\nopt.step()\nz = f(x)", []),
        ("y = f(x)\nx[0] = g(y)\nz = f(x)", []),
        ("y = f(x)\nif y:\n    z = f(x)", []),
        ("y = f(g(x))\nz = f(g(x))", []),
        ("y = f()\nz = f()", []),
        ("y = next(batches)\nz = next(batches)", []),
        ("y = env.step(x)\nz = env.step(x)", []),
        ("y = f(x", []),
    ],
)
def test_what_the_text_calls_twice(text: str, pairs: list[tuple[str, int, int]]) -> None:
    """Only where nothing can have changed a name or its object between."""
    assert [(each.call, each.first, each.second) for each in twins(text)] == pairs


def test_a_recurrence_written_out(tmp_path: Path) -> None:
    """64 turns in each of 20 visits."""
    finding = only(recorded(CELL, tmp_path), "recurrence")
    assert finding.title == "a recurrence of 64 small iterations at program.py:22"
    assert "nn.LSTM" in finding.author
    gain = finding.program_gain
    assert gain is not None
    assert gain.low == 1 < gain.mid <= gain.high


def looping(line: str, *operations: str) -> Profile:
    """Two visits of a function whose loop, in line 3, has 40 iterations of these operations."""
    text = f"def f(x, h, n):\n    y = g(x)\n    for t in n:\n        {line}\n    return h\n"
    builder = TreeBuilder()
    for number, ops, count in ((2, ("aten::tanh",), 2), (4, operations, 80)):
        at = Location("/home/me/a.py", number, function="f")
        frame = builder.child(-1, "frame", "f", at)
        for name in ops:
            op = builder.child(frame, "op", name)
            builder.add(op, "count", count)
            builder.add(op, "cpu_time", 1e6 * count)
    return builder.snapshot(Tables(sources={"/home/me/a.py": text}))


def test_decoding_is_no_sequence_for_one_call() -> None:
    """Each iteration waits for what the one before chose; without a choice, a cell may be given
    all of them."""
    line = "scores, h = m(x, h); x = scores.topk(5)"
    decodes, cell = (
        only(looping(line, "aten::addmm", "aten::tanh", *more), "recurrence")
        for more in (["aten::topk"], [])
    )
    assert decodes.title == "a loop that decodes in 40 small iterations at a.py:4"
    assert (decodes.severity, decodes.program_gain) == ("symptom", None)
    assert "nn.LSTM" not in decodes.author
    assert "aten::topk" in decodes.author
    assert cell.severity == "suggestion"
    assert "nn.LSTM" in cell.author


def test_a_formula_in_a_loop_is_a_scan() -> None:
    """Its operations are those of all lines of the loop; what a scan brings is not known."""
    finding = only(looping("h = x[t] * h", "aten::select", "aten::mul"), "recurrence")
    assert finding.title == "a recurrence of 40 small iterations at a.py:4"
    assert finding.severity == "symptom"
    assert "torch.associative_scan" in finding.author
    assert "h is computed 40 times in a visit of the loop in line 3, 2 operations each" in (
        finding.evidence[0].text
    )


def test_training_steps_that_return_parameters_are_no_recurrence() -> None:
    """The loop carries parameters on, not a state: there is no sequence to give to one call."""
    text = "def train(w):\n    for _ in range(n):\n        w = step(w)\n"
    for gradients in (False, True):
        builder = TreeBuilder()
        for line, count in ((1, 2), (3, 500)):
            at = Location("/home/me/a.py", line, function="train")
            frame = builder.child(-1, "frame", "train", at)
            op = builder.child(frame, "op", "aten::tanh")
            builder.add(op, "count", count)
            builder.add(op, "cpu_time", 1e6 * count)
        if gradients:
            engine = Location(f"{LIBRARY}torch/autograd/graph.py", 9, function="_engine")
            backward = builder.child(frame, "frame", "_engine_run_backward", engine)
            builder.add(backward, "cpu_time", 1e6)
        told = found(builder.snapshot(Tables(sources={"/home/me/a.py": text})), "recurrence")
        assert len(told) == 1 - gradients


def test_only_texts_that_lead_to_operations_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that imports a large library has the texts of hundreds of files."""
    builder, texts = TreeBuilder(), dict[str, str]()
    for number in range(3):
        file = f"/home/me/m{number}.py"
        texts[file] = f"def f(x):\n    for i in range({number}):\n        x = g(x)\n"
        line = builder.child(-1, "frame", "f", Location(file, 3, function="f"))
        builder.add(line, "cpu_time", 1e6)
    builder.add(builder.child(line, "op", "aten::mm"), "count", 1)
    parsed_texts = list[str]()

    def note(text: str) -> None:
        parsed_texts.append(text)

    monkeypatch.setattr(calls, "parsed", note)
    analyze(builder.snapshot(Tables(sources=texts)))
    assert set(parsed_texts) == {texts["/home/me/m2.py"]}


def test_layers_in_a_loop_and_few_turns(tmp_path: Path) -> None:
    """Each layer is another one; four turns are hardly a recurrence."""
    program = CELL.replace("4, 64, 16", "4, 4, 16") + LAYERS
    assert not found(recorded(program, tmp_path), "recurrence")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("for t in n:\n        h = self.cell(x[t], h)", 1),
        ("for layer in self.layers:\n        h = layer(h)", 0),
        ("for i in n:\n        h = self.layers[i](h)", 0),
        ("for t in n:\n        y = self.cell(x[t])", 0),
        ("for t in n:\n        h = a[t] * h + x[t]", 1),
        ("for t in n:\n        h = h + x[t]", 0),
        ("for t in n:\n        y = a[t] * h + x[t]", 0),
    ],
)
def test_what_a_loop_carries_on(body: str, told: int) -> None:
    """The same function with its last result, or a formula that multiplies it."""
    assert len(carried(f"def f(self, x, h, n):\n    {body}\n")) == told


def update(dispatch: float, jitted: bool = False) -> Profile:
    """A program of JAX: 900 ms of compiling, 100 ms of work, a part of it in an update."""
    builder = TreeBuilder()
    jax = f"{LIBRARY}jax/_src/"

    def frame(above: int, name: str, file: str, line: int) -> int:
        return builder.child(above, "frame", name, Location(file, line, function=name))

    top = frame(-1, "<module>", "/home/me/train.py", 40)
    main = frame(top, "main", "/home/me/train.py", 30)
    builder.add(main, "cpu_time", 100e6 - dispatch)
    caller = frame(top, "main", "/home/me/train.py", 31)
    for line in range(10, 15):
        inner = frame(caller, "adam", "/home/me/train.py", line)
        at = frame(inner, "_operator_mul", f"{jax}numpy/array_methods.py", 774)
        if jitted:
            at = frame(caller, "cache_miss", f"{jax}pjit.py", 259)
        builder.add(at, "cpu_time", dispatch / 5)
        compiling = frame(at, "MeshComputation.compile", f"{jax}interpreters/pxla.py", 1239)
        builder.add(compiling, "cpu_time", 180e6)
    return builder.snapshot()


def test_operations_of_jax_outside_of_jit() -> None:
    """Five operations take 60 % of what is not compiling: of that 1 - 1 / 5 likely goes."""
    finding = only(update(60e6), "jit-update")
    assert finding.title == "5 operations of JAX are dispatched one by one at train.py:31"
    gain = finding.program_gain
    assert gain is not None
    expected = (1.0, 1 / (1 - 0.48), 1 / (1 - 0.6))
    assert (gain.low, gain.mid, gain.high) == pytest.approx(expected)
    assert "PyTorch" not in finding.author


def test_little_dispatch_and_one_program_of_jax() -> None:
    """Code that is only compiled ran once; one jitted call is what the advice asks for."""
    assert not found(update(0), "jit-update")
    assert not found(update(5e6), "jit-update")
    assert not found(update(60e6, jitted=True), "jit-update")


def test_lines_of_a_program_without_operations() -> None:
    """What PyTorch runs is no word of a program of JAX."""
    texts = [each.author for each in found(update(60e6, jitted=True), "hotspot")]
    builder = TreeBuilder()
    line = builder.child(-1, "frame", "main", Location("/home/me/train.py", 7, function="main"))
    builder.add(line, "cpu_time", 1e9)
    texts += [each.author for each in found(builder.snapshot(), "hotspot")]
    assert texts
    assert not any("PyTorch" in each for each in texts)


def test_jax_compiles() -> None:
    """Told with what changes it in JAX."""
    finding = only(update(10e6), "compiling")
    assert "900 ms, 90.0 % of its time" in finding.evidence[0].text
    assert "jax.jit" in finding.author
    assert "dynamo" not in finding.author


ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<double> >"


def doubles(name: str, time: float = MS / 2) -> Step:
    """A kernel in a step of 1 ms."""
    step = Step()
    step.launch(step.op(step.frame(step.top, "react", 10), "aten::add"), name, time)
    step.launch(step.op(step.frame(step.top, "rest", 20), "aten::mm"), "nvjet_hsh", MS - time)
    return step


def test_kernels_on_doubles() -> None:
    """Half of their time goes likely."""
    finding = only(doubles(ADD).profile(), "doubles")
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid) == pytest.approx((1 / (1 - 0.125), 1 / (1 - 0.25)))
    assert "np.float32" in finding.author


def test_kernels_on_doubles_give_their_own_time() -> None:
    """The account takes what goes from them, not from idle time."""
    held = analyze(doubles(ADD).profile()).account
    assert held is not None
    (cause,) = (each for each in held.causes if each.rule == "doubles")
    assert cause.time > 0
    assert cause.idle == 0


@pytest.mark.parametrize(
    ("name", "time"),
    [
        (ADD.replace("double", "float"), MS / 2),
        ("multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>, float const*, double>", MS / 2),
        (ADD, MS / 50),
    ],
)
def test_floats_scalars_and_little(name: str, time: float) -> None:
    """A fused Adam takes its rates as doubles."""
    assert not found(doubles(name, time).profile(), "doubles")
