"""The machines that kernels are compiled for, one folder each."""
