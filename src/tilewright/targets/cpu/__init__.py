"""Kernels on the host's CPU: SIMD code on all cores."""
