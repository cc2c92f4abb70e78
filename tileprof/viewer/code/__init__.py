"""Views of source lines and machine code with samples and counts beside them.

In: a profile with samples of instructions.  Out: text for a terminal, or data for scripts."""
