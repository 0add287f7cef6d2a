"""cuDNN 8.9 and 9 through ctypes, in the style of scikit-cuda, which has none.

    from autotape.backends.cudnn_backend import binding as libcudnn

    handle = libcudnn.cudnnCreate()
    x = libcudnn.cudnnCreateTensorDescriptor()
    libcudnn.cudnnSetTensor4dDescriptor(x, libcudnn.CUDNN_TENSOR_NCHW, libcudnn.CUDNN_DATA_FLOAT, 8, 3, 32, 32)
    libcudnn.cudnnGetTensorSizeInBytes(x)       # 98304; help() of a function says what it takes and gives

Importing it loads libcudnn (library.py) and raises OSError where there is none.
"""

from typing import TYPE_CHECKING, Any

from .calls import *  # noqa: F403
from .enumerators import *  # noqa: F403
from .errors import *  # noqa: F403

if TYPE_CHECKING:  # the functions are made of their prototypes

    def __getattr__(name: str) -> Any: ...
