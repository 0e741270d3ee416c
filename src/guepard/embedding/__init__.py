"""Guepard inside a program: a server on a thread of its own, or a model without any server."""
