"""Passes from a kernel to a kernel, and the facts that targets ask for."""
