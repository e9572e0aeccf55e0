"""The library of the CUDA driver through ctypes: where it is found, and its functions' types."""

from __future__ import annotations

import ctypes

from tilewright.errors import LaunchError

LIBRARIES = ("libcuda.so.1", "libcuda.so", "nvcuda.dll")

Handle = ctypes.c_void_p
SIGNATURES: dict[str, tuple] = {
    "cuInit": (ctypes.c_uint,),
    "cuDriverGetVersion": (ctypes.POINTER(ctypes.c_int),),
    "cuDeviceGetCount": (ctypes.POINTER(ctypes.c_int),),
    "cuDeviceGet": (ctypes.POINTER(ctypes.c_int), ctypes.c_int),
    "cuDeviceGetName": (ctypes.c_char_p, ctypes.c_int, ctypes.c_int),
    "cuDeviceGetAttribute": (ctypes.POINTER(ctypes.c_int), ctypes.c_int, ctypes.c_int),
    "cuDeviceTotalMem_v2": (ctypes.POINTER(ctypes.c_size_t), ctypes.c_int),
    "cuDevicePrimaryCtxRetain": (ctypes.POINTER(Handle), ctypes.c_int),
    "cuCtxGetCurrent": (ctypes.POINTER(Handle),),
    "cuCtxSetCurrent": (Handle,),
    "cuCtxGetDevice": (ctypes.POINTER(ctypes.c_int),),
    "cuCtxSynchronize": (),
    "cuModuleLoadDataEx": (
        ctypes.POINTER(Handle),
        ctypes.c_char_p,
        ctypes.c_uint,
        ctypes.POINTER(ctypes.c_int),
        ctypes.POINTER(Handle),
    ),
    "cuModuleUnload": (Handle,),
    "cuModuleGetFunction": (ctypes.POINTER(Handle), Handle, ctypes.c_char_p),
    "cuFuncGetAttribute": (ctypes.POINTER(ctypes.c_int), ctypes.c_int, Handle),
    "cuFuncSetAttribute": (Handle, ctypes.c_int, ctypes.c_int),
    "cuLinkCreate_v2": (
        ctypes.c_uint,
        ctypes.POINTER(ctypes.c_int),
        ctypes.POINTER(Handle),
        ctypes.POINTER(Handle),
    ),
    "cuLinkAddData_v2": (
        Handle,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.c_uint,
        Handle,
        Handle,
    ),
    "cuLinkComplete": (Handle, ctypes.POINTER(Handle), ctypes.POINTER(ctypes.c_size_t)),
    "cuLinkDestroy": (Handle,),
    "cuLaunchKernelEx": (Handle, Handle, Handle, Handle),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (
        ctypes.POINTER(ctypes.c_int),
        Handle,
        ctypes.c_int,
        ctypes.c_size_t,
    ),
    "cuMemAlloc_v2": (ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t),
    "cuMemFree_v2": (ctypes.c_uint64,),
    "cuMemHostAlloc": (ctypes.POINTER(Handle), ctypes.c_size_t, ctypes.c_uint),
    "cuMemcpyHtoD_v2": (ctypes.c_uint64, Handle, ctypes.c_size_t),
    "cuMemcpyDtoH_v2": (Handle, ctypes.c_uint64, ctypes.c_size_t),
    "cuMemcpyDtoD_v2": (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t),
    "cuMemGetInfo_v2": (ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)),
    "cuMemsetD8_v2": (ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t),
    "cuPointerGetAttribute": (Handle, ctypes.c_int, ctypes.c_uint64),
    "cuMemsetD8Async": (ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, Handle),
    "cuStreamCreate": (ctypes.POINTER(Handle), ctypes.c_uint),
    "cuStreamDestroy_v2": (Handle,),
    "cuStreamSynchronize": (Handle,),
    "cuStreamIsCapturing": (Handle, ctypes.POINTER(ctypes.c_int)),
    "cuThreadExchangeStreamCaptureMode": (ctypes.POINTER(ctypes.c_int),),
    "cuEventCreate": (ctypes.POINTER(Handle), ctypes.c_uint),
    "cuEventDestroy_v2": (Handle,),
    "cuEventRecord": (Handle, Handle),
    "cuEventSynchronize": (Handle,),
    "cuEventElapsedTime": (ctypes.POINTER(ctypes.c_float), Handle, Handle),
}


def open_library() -> ctypes.CDLL:
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise LaunchError(
        "no NVIDIA driver is installed here (libcuda.so.1 is not found); run on the CPU, "
        "e.g. with x.cpu() or TILEWRIGHT_TARGET=cpu"
    )
