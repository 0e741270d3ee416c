"""Measuring: load, histograms, windows, intervals, comparison, and the format of results. Shared by every room that measures."""
