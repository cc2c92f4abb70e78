"""Program to binary: the passes, the C++ text, the system compiler and its cache."""
