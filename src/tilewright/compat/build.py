"""`triton.runtime.build`: native modules that programs compile for launchers of their own."""

from tilewright.compat.unsupported import unsupported

REASON = "kernels are launched without a C compiler"
compile_module_from_src = unsupported("triton.runtime.build.compile_module_from_src", REASON)
compile_module_from_file = unsupported("triton.runtime.build.compile_module_from_file", REASON)
