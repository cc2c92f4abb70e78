"""The tree that grows while a program runs, and the numbers at its nodes.

In: call paths, as Python frames or as contexts of the native recorder.  Out: nodes, interned once.
Nothing here knows of sessions, devices or samplers.
"""
