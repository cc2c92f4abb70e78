"""Rules about layouts of tensors that libraries and programs choose: one file each.

In: a program.  Out: drafts of findings.
"""
