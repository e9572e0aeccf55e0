"""NVIDIA GPUs: layouts of tiles over threads, and native code through PTX."""
