"""Bounds that keep one server within its memory."""
