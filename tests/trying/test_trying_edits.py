"""Changes in the source of a program: only what is meant, everything else as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileprof.analyzer.fixes import (
    CHANNELS_LAST,
    CONVOLUTION_TRIALS,
    GRADIENTS_TO_NONE,
    NO_CHECKPOINTS,
    SPARSE_GRADIENTS,
    CompiledFunction,
    Fix,
    LoaderWorkers,
    MatmulPrecision,
    OptimizerForm,
)
from tileprof.errors import OutputError
from tileprof.trying.edits import edited_text, edits_of

FUSED = OptimizerForm("fused", "AdamW")


@pytest.mark.parametrize(
    ("fix", "old", "new"),
    [
        (FUSED, "o = torch.optim.AdamW(p, lr=1)", "o = torch.optim.AdamW(p, lr=1, fused=True)"),
        (FUSED, "o = AdamW(p, fused=False)", "o = AdamW(p, fused=True)"),
        (
            FUSED,
            "o = AdamW(\n    p,  # ä\n    lr=1,\n)",
            "o = AdamW(\n    p,  # ä\n    lr=1, fused=True,\n)",
        ),
        (FUSED, "o = AdamW(p, foreach=True)", None),
        (FUSED, "o = AdamW(p, fused=choice)", None),
        (FUSED, "o = AdamW(p, **options)", None),
        (FUSED, "o = SGD(p)", None),
        (FUSED, "o = AdamW(p for p in q)", None),
        (FUSED, "o = (", None),
        (OptimizerForm(), "o = SGD(p)", "o = SGD(p, fused=True)"),
        (
            LoaderWorkers(2),
            "d = DataLoader(x, num_workers=0)",
            "d = DataLoader(x, num_workers=2, persistent_workers=True)",
        ),
        (LoaderWorkers(2), "d = DataLoader(x, num_workers=4)", None),
        (GRADIENTS_TO_NONE, "o.zero_grad(set_to_none=False)", "o.zero_grad(set_to_none=True)"),
        (GRADIENTS_TO_NONE, "o.zero_grad()", None),
        (
            CompiledFunction("a.py", "A.f"),
            "import torch\nclass A:\n    @no\n    def f(self): pass\n",
            "import torch\nclass A:\n    @torch.compile\n    @no\n    def f(self): pass\n",
        ),
        (CompiledFunction("a.py", "f"), "def f(): pass\n", None),
        (
            MatmulPrecision(),
            "import torch\nimport os\nx = 1\n",
            'import torch\nimport os\n\ntorch.set_float32_matmul_precision("high")\nx = 1\n',
        ),
        (CONVOLUTION_TRIALS, "import torch as t\n", None),
        (SPARSE_GRADIENTS, "e = nn.Embedding(9, 2)", "e = nn.Embedding(9, 2, sparse=True)"),
        (
            SPARSE_GRADIENTS,
            "e = nn.Embedding(9, 2, sparse=False)",
            "e = nn.Embedding(9, 2, sparse=True)",
        ),
        (SPARSE_GRADIENTS, 'e = EmbeddingBag(9, 2, mode="max")', None),
        (
            NO_CHECKPOINTS,
            "m.base.gradient_checkpointing_enable({})",
            "m.base.gradient_checkpointing_disable()",
        ),
        (
            NO_CHECKPOINTS,
            "y = checkpoint(f.g, x, k=2, use_reentrant=False)  # ä",
            "y = f.g(x, k=2)  # ä",
        ),
        (NO_CHECKPOINTS, "game.checkpoint(path)", None),
        (CHANNELS_LAST, "import torch\n", None),
    ],
)
def test_a_change_in_a_text(fix: Fix, old: str, new: str | None) -> None:
    """What is chosen already, or computed, is left alone; so is a file with no place for it."""
    assert edited_text(old, fix) == new


def test_changes_are_written_where_they_acted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another file than the script, and only at those calls; without places, in the script."""
    monkeypatch.chdir(tmp_path)
    built = "import torch\na = AdamW(p)\nb = AdamW(\n    p,\n    lr=1)\n"
    Path("built.py").write_text(built)
    Path("train.py").write_text("import torch\nc = AdamW(q)\n")
    fixes = (MatmulPrecision(), FUSED)
    found = edits_of(fixes, "train.py", ((("train.py", 1),), (("built.py", 3),)))
    assert [(str(each.path), each.written) for each in found] == [
        ("train.py", fixes[:1]), ("built.py", fixes[1:]),
    ]  # fmt: skip
    assert found[1].new == built.replace("lr=1", "lr=1, fused=True")
    assert edits_of((FUSED,), None, ((),)) == ()
    (only,) = edits_of((FUSED,), "train.py")
    assert "AdamW(q, fused=True)" in only.new


def test_lines_keep_their_ends() -> None:
    """Those of Windows too."""
    text = "import torch\r\ndef f():\r\n    pass\r\n"
    found = edited_text(text, CompiledFunction("a.py", "f"))
    assert found == "import torch\r\n@torch.compile\r\ndef f():\r\n    pass\r\n"


def test_a_file_is_written_with_a_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when it has changed meanwhile, and not over an earlier backup."""
    monkeypatch.chdir(tmp_path)
    path = Path("train.py")
    path.write_text("o = AdamW(p)\n")
    (edit,) = edits_of([FUSED, CHANNELS_LAST], "train.py")
    assert edit.written == (FUSED,)
    assert edit.diff() == (
        "--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-o = AdamW(p)\n+o = AdamW(p, fused=True)\n"
    )
    path.write_text("o = AdamW(p)  # new\n")
    with pytest.raises(OutputError, match="has changed since"):
        edit.apply()
    path.write_text(edit.old)
    backup = edit.apply()
    assert (path.read_text(), backup.read_text()) == (edit.new, edit.old)
    path.write_text(edit.old)
    with pytest.raises(OutputError, match="is there already"):
        edit.apply()
    assert edits_of([FUSED], "no.py") == ()
