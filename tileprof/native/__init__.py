"""C++ for what happens too often for Python.

In: arguments of a call, or events of a program.  Out: what they stand for, without Python on the
way.  `recorder/`, `launcher/` and `injection/` are built at installation, where there is a
compiler; the rest when it is first wanted, on the machine where it runs (`building`).  Everything
works without: each user of a library here has a way in Python, or says what is missing.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
"""Where the sources are."""
