"""The language of the compiler: types, ops, instructions, text, verifier, rewriting."""
