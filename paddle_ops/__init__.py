"""Deformable convolution and sigmoid cross entropy for Paddle, as custom operators.

Importing the package registers the compiled operators, so that saved models that use them can be
loaded. The names below are resolved on first use; without a usable binary that raises an
ImportError that says what to do, while `import paddle_ops; paddle_ops.jit.load()` always works.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import _lib, jit
from ._threads import get_num_threads, set_num_threads

if TYPE_CHECKING:
    from . import functional, nn, onnx, porting, viz
    from ._drop_in import patch_paddle, unpatch_paddle

    # not from .functional, where mypy takes the modules for the functions of the same name
    from .functional.binary_cross_entropy_with_logits import binary_cross_entropy_with_logits
    from .functional.deform_conv2d import deform_conv2d
    from .functional.sigmoid_cross_entropy_with_logits import sigmoid_cross_entropy_with_logits

__version__ = "0.1.0"

__all__ = [
    "binary_cross_entropy_with_logits",
    "deform_conv2d",
    "functional",
    "get_num_threads",
    "jit",
    "nn",
    "onnx",
    "patch_paddle",
    "porting",
    "set_num_threads",
    "sigmoid_cross_entropy_with_logits",
    "unpatch_paddle",
    "viz",
]

_lib.load()


if not TYPE_CHECKING:  # it would make every name right

    def __getattr__(name: str) -> Any:
        """Resolve the names that need the compiled operators."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        _lib.require()
        if name in ("functional", "nn", "onnx", "porting", "viz"):
            return importlib.import_module(f".{name}", __name__)
        home = "._drop_in" if name in ("patch_paddle", "unpatch_paddle") else ".functional"
        value = getattr(importlib.import_module(home, __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """List the names that are resolved on first use, too."""
    return sorted({*globals(), *__all__})
