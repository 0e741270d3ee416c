"""Measuring: load, histograms, intervals, comparison, and the format of results, for every room that measures."""
