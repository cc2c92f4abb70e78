"""docs/rules.md: an index of the analyzer's rules, from their registry.

    python benchmarks/page_rules.py

In: the rules, and the first paragraph of the module of each.  Out: the page.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tileprof.analyzer.drafts import KernelRule, ProgramRule
from tileprof.analyzer.rules import KERNEL_RULES, PROGRAM_RULES
from tileprof.viewer.findings.evidence import WORDS

PAGE = Path(__file__).parent.parent / "docs" / "rules.md"
TEXT = """# Index of rules

This page lists the {count} rules of `tileprof report`, in the order in which they run. A rule's
name stands behind the title of its findings, in JSON and in SARIF. `tileprof report FILE -i NAME`
shows the findings of one rule. [Reports](report.md) explains severities and gains. The file of a
rule, in `tileprof/analyzer/rules`, says what it examines, its formula, and the formula's source.

*Sharpened by* names the evidence that confirms a rule's findings or lets it state a gain ([how to
record it](report.md#kinds-of-evidence)).

## Rules about a kernel

{kernels}
## Rules about a program

{programs}"""


def page() -> str:
    """Return the text of the page."""
    return TEXT.format(
        count=len(KERNEL_RULES) + len(PROGRAM_RULES),
        kernels=entries(KERNEL_RULES),
        programs=entries(PROGRAM_RULES),
    )


def entries(rules: Sequence[KernelRule | ProgramRule]) -> str:
    """Return a heading and some lines for each rule."""
    return "\n".join(entry(rule) for rule in rules)


def entry(rule: KernelRule | ProgramRule) -> str:
    """Return a rule's heading, its first paragraph, the evidence that it uses, and its file."""
    module = sys.modules[rule.find.__module__]
    first = (module.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
    evidence = ", ".join(WORDS[tier] for tier in rule.sharper)
    file = module.__name__.removeprefix("tileprof.analyzer.rules.").replace(".", "/") + ".py"
    return f"### `{rule.name}`\n\n{first}\n\nSharpened by: {evidence}. File: `{file}`.\n"


if __name__ == "__main__":
    PAGE.write_text(page())
