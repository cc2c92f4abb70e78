"""The page of a drawing: a document of JSON and the scripts that draw it.

In: what was watched and what the compiler says.  Out: the text of an HTML page.
"""
