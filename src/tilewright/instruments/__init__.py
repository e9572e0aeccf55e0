"""Instruments: what a kernel touched, moved and took, counted and set beside what it replaces."""
