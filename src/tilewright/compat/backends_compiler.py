"""`triton.backends.compiler`: what code is made for."""

from tilewright.compat.unsupported import unsupported_class
from tilewright.runtime.cpu_driver import GPUTarget

BaseBackend = unsupported_class(
    "triton.backends.compiler.BaseBackend", "targets are part of Tilewright, not plugins"
)


class Language:
    """The kinds of sources of a kernel."""

    TRITON = 0
    GLUON = 1


__all__ = ["BaseBackend", "GPUTarget", "Language"]
