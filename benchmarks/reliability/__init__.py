"""Campaigns that look for hangs, lost data and unsafe input handling."""
