"""What native code must know of NumPy's and torch's objects to read them in place."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.targets.fastcall.read import LAYOUT, MOST_DTYPES

# torch's C functions take an at::Tensor* and where to put the answer, and give 0 for success;
# this way a tensor takes 20 ns and its storage is known (DLPack: 37 ns, without the storage).
TORCH_FUNCTIONS = {
    "get_device": "aoti_torch_get_device_type",
    "get_dtype": "aoti_torch_get_dtype",
    "is_neg": "_ZN2at6native6is_negERKNS_6TensorE",
    "get_data": "aoti_torch_get_data_ptr",
    "get_offset": "aoti_torch_get_storage_offset",
    "get_size": "aoti_torch_get_storage_size",
    "get_index": "aoti_torch_get_device_index",
}


class Layouts:
    """The words that `@read` looks at; each library's are set when its layout was confirmed."""

    def __init__(self, layouts: int, itemsizes: int):
        self.words = (ctypes.c_int64 * 16).from_address(layouts)
        self.itemsizes = (ctypes.c_uint8 * MOST_DTYPES).from_address(itemsizes)
        self.seen_torch = False
        self.get_dtype: Any = None
        self.find_numpy()

    def find_numpy(self) -> None:
        elsize = find_elsize()
        if elsize is not None and is_array_layout():
            self.words[LAYOUT["elsize"]] = elsize
            self.words[LAYOUT["ndarray"]] = id(np.ndarray)

    def find_torch(self) -> None:
        """Learn about torch, once it is there."""
        torch = sys.modules.get("torch")
        if self.seen_torch or not hasattr(torch, "nn") or is_watched(torch):
            return
        self.seen_torch = True
        library = ctypes.CDLL(torch._C.__file__)
        if not all(hasattr(library, name) for name in TORCH_FUNCTIONS.values()):
            return
        functions = {k: getattr(library, name) for k, name in TORCH_FUNCTIONS.items()}
        handle = find_handle(torch)
        if handle is None or not is_tensor_layout(torch, functions, handle):
            return
        self.get_dtype = functions["get_dtype"]
        for word, function in functions.items():
            self.words[LAYOUT[word]] = ctypes.cast(function, ctypes.c_void_p).value
        self.words[LAYOUT["handle"]] = handle
        self.words[LAYOUT["nn_parameter"]] = id(torch.nn.Parameter)
        self.words[LAYOUT["tensor"]] = id(torch.Tensor)

    def admit(self, value: Any) -> None:
        """Let tensors of the dtype of this one pass, which Python has found to be possible."""
        if id(type(value)) in (self.words[LAYOUT["tensor"]], self.words[LAYOUT["nn_parameter"]]):
            number = ctypes.c_int32(-1)
            where = ctypes.c_void_p(id(value) + self.words[LAYOUT["handle"]])
            self.get_dtype(where, ctypes.byref(number))
            if 0 <= number.value < MOST_DTYPES:
                self.itemsizes[number.value] = value.element_size()


def _word(address: int) -> int:
    return ctypes.c_size_t.from_address(address).value


def find_elsize() -> int | None:
    """Where a NumPy dtype holds its item size: at 32 before NumPy 2, at 40 since."""
    kinds = [np.dtype(k) for k in ("?", "i2", "f4", "f8", "c16", "S5", "i8")]
    kinds.append(np.dtype(ml_dtypes.bfloat16))
    for place in (32, 40):
        found = [ctypes.c_int32.from_address(id(k) + place).value for k in kinds]
        if found == [k.itemsize for k in kinds]:
            return place
    return None


def is_array_layout() -> bool:
    """Whether arrays are laid out as `@read_array` takes for granted."""
    whole = np.zeros((3, 5, 7), np.int16)
    view = whole[1:, ::2, 3]
    view.flags.writeable = False
    for array, base, flags in ((whole, 0, 1024), (view, id(whole), 0)):
        at = id(array)
        shape = (ctypes.c_int64 * array.ndim).from_address(_word(at + 32))
        found = (
            _word(at + 16), ctypes.c_int32.from_address(at + 24).value, tuple(shape),
            _word(at + 48), _word(at + 56), ctypes.c_int32.from_address(at + 64).value & 1024,
        )  # fmt: skip
        wanted = (array.ctypes.data, array.ndim, array.shape, base, id(array.dtype), flags)
        if found != wanted:
            return False
    return True


def is_watched(torch: Any) -> bool:
    """Whether a mode is on that would see, or fake, the tensors that are made to find out."""
    return getattr(torch._C, "_len_torch_dispatch_stack", int)() > 0


def find_handle(torch: Any) -> int | None:
    """Where the object of a tensor holds its at::Tensor."""
    tensors = [torch.zeros(2, device="cpu"), torch.zeros(3, device="cpu")]
    for place in range(16, torch.Tensor.__basicsize__, 8):
        if all(_word(id(t) + place) == t._cdata for t in tensors):
            return place
    return None


def is_tensor_layout(torch: Any, functions: dict[str, Any], handle: int) -> bool:
    """Whether torch's C functions say of tensors what Python says."""
    whole = torch.zeros(24, dtype=torch.float64, device="cpu")
    for tensor in (whole, whole[3:].view(7, 3)[:, 1], torch._neg_view(whole)[2:]):
        where = ctypes.c_void_p(id(tensor) + handle)

        def ask(name: str, kind: Any, where: Any = where) -> Any:
            answer = kind(-1)
            return functions[name](where, ctypes.byref(answer)) or answer.value

        functions["is_neg"].restype = ctypes.c_bool
        found = (
            ask("get_device", ctypes.c_int32), ask("get_data", ctypes.c_int64),
            ask("get_offset", ctypes.c_int64), ask("get_size", ctypes.c_int64),
            functions["is_neg"](where),
        )  # fmt: skip
        storage = tensor.untyped_storage()
        wanted = (
            0, tensor.data_ptr(), tensor.storage_offset(), storage.nbytes(), tensor.is_neg(),
        )  # fmt: skip
        if found != wanted:
            return False
    nowhere = torch.empty(1, device="meta")
    device = ctypes.c_int32(0)
    functions["get_device"](ctypes.c_void_p(id(nowhere) + handle), ctypes.byref(device))
    return device.value != 0
