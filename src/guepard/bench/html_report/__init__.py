"""A result as one HTML file that needs nothing else: no request leaves it, and without scripts it is complete."""

from guepard.bench.html_report.page import render as render
from guepard.bench.html_report.page import write as write
