"""`triton.compiler.code_generator`: our frontend works differently and shares only errors."""

from tilewright.compat.errors import CompilationError, UnsupportedLanguageConstruct
from tilewright.compat.unsupported import unsupported, unsupported_class

REASON = "kernels are compiled by tilewright.lang.frontend, to another IR"
ast_to_ttir = unsupported("triton.compiler.code_generator.ast_to_ttir", REASON)
CodeGenerator = unsupported_class("triton.compiler.code_generator.CodeGenerator", REASON)

__all__ = ["CodeGenerator", "CompilationError", "UnsupportedLanguageConstruct", "ast_to_ttir"]
