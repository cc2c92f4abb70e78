"""Sessions: what each one asks for, who shares the recorder, and the profile that results.

In: options and a recorder.  Out: a `Profile`, its file, and provenance.
"""
