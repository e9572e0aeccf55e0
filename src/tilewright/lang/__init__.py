"""Python source to IR, and everything above the seam: tiles, promotion, library functions."""
