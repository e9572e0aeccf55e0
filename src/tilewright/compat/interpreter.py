"""`triton.runtime.interpreter`: stepping through kernels in Python is the setting `target`."""

from tilewright.compat.unsupported import unsupported_class

REASON = 'run the kernel with tilewright.options(target="eager") instead'
InterpretedFunction = unsupported_class("triton.runtime.interpreter.InterpretedFunction", REASON)
GridExecutor = unsupported_class("triton.runtime.interpreter.GridExecutor", REASON)
