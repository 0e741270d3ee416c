"""Engines that execute models, behind one narrow seam (`base.py`)."""
