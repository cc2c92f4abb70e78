"""Interactive figures of profiles, by plotly, which is imported where a figure is made.

In: a profile and what to show of it.  Out: a plotly figure, or pages with several that need
nothing but a browser.
"""
