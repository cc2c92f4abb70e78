"""C++ that is compiled on the machine where it runs, when it is first wanted.

In: arguments of a call, or events of a program.  Out: what they stand for, without Python on the
way.  Nothing is compiled at installation, and everything works without: each user of a library here
has a way in Python.
"""

from pathlib import Path

__all__ = ["FOLDER"]

FOLDER = Path(__file__).parent
"""Where the sources are."""
