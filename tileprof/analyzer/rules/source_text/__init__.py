"""Rules that read what a program's source text says of its results and calls."""
