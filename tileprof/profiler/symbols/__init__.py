"""Names and lines of native code: files of programs and libraries, and the functions in them.

Nothing here needs the process that ran the code, but for names of C++, which it demangles.
"""
