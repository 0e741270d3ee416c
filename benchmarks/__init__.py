"""Measurements of Guepard against the limits of the machine it runs on."""
