"""Triton kernels and their launches, read in a program's text.

In: texts of files, as a profile keeps them.  Out: kernels with what each of their statements loads,
computes and stores; launches with their arguments.  Nothing is run.
"""
