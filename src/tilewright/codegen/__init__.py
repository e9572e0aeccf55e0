"""What all LLVM targets share: lane recipes, math functions, lowering, and LLVM itself."""
