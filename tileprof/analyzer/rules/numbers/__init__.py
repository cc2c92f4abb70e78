"""Numbers of single rules: thresholds, and what a change was measured to bring.

Each says its unit, its meaning and its source, as those in `analyzer/numbers` do, which has what
several modules share.  They stand under the name of their module, which begins theirs.
`tests/analyzer/test_numbers.py` keeps them here.
"""
