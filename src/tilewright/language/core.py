"""The names of `triton.language.core`."""

# ruff: noqa: F401 - the names are here to be imported from here

from tilewright.ir.types import MAX_ELEMENTS as TRITON_MAX_TENSOR_NUMEL
from tilewright.ir.types import (
    bfloat16,
    float8e4b8,
    float8e4b15,
    float8e4nv,
    float8e5,
    float8e5b16,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    pointer_to,
    uint8,
    uint16,
    uint32,
    uint64,
    void,
)
from tilewright.lang.arithmetic import PropagateNan, add, clamp, maximum, minimum, mul, sub, where
from tilewright.lang.arithmetic import number as to_tensor
from tilewright.lang.arithmetic import without_bf16 as _without_bf16
from tilewright.lang.block_pointer import block_pointer
from tilewright.lang.builtin import builtin, is_builtin
from tilewright.lang.constexpr import constexpr, constexpr_function
from tilewright.lang.constexpr import unwrap as _unwrap_if_constexpr
from tilewright.lang.conversion import cast_function as cast
from tilewright.lang.descriptor import (
    load_tensor_descriptor,
    make_tensor_descriptor,
    store_tensor_descriptor,
    tensor_descriptor,
)
from tilewright.lang.externs import (
    dispatch,
    extern,
    extern_elementwise,
    inline_asm_elementwise,
    must_use_result,
)
from tilewright.lang.memory import (
    advance,
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xchg,
    atomic_xor,
    load,
    make_block_ptr,
    store,
)
from tilewright.lang.meta import (
    assume,
    condition,
    debug_barrier,
    device_assert,
    device_print,
    max_constancy,
    max_contiguous,
    multiple_of,
    num_programs,
    program_id,
    range,
    static_assert,
    static_print,
    static_range,
)
from tilewright.lang.products import dot, dot_scaled
from tilewright.lang.reductions import associative_scan, histogram, map_elementwise, reduce
from tilewright.lang.shapes import (
    arange,
    broadcast,
    broadcast_to,
    cat,
    expand_dims,
    full,
    gather,
    item,
    join,
    permute,
    reshape,
    split,
    trans,
    view,
)
from tilewright.lang.tensor import tensor
from tilewright.lang.typenames import aggregate as _aggregate
from tilewright.lang.typenames import (
    aggregate_replace,
    async_task,
    base_type,
    base_value,
    block_type,
    const,
    const_pointer_type,
    constexpr_type,
    dtype,
    function_type,
    get_int_dtype,
    nv_tma_desc_type,
    pointer_type,
    slice_type,
    str_to_ty,
    tensor_descriptor_type,
    tuple_type,
)

pi32_t = pointer_to(int32)
CONSTEXPR_0 = constexpr(0)
tuple = tuple  # kernels write tl.tuple
slice = slice  # kernels write tl.slice
tensor_descriptor_base = tensor_descriptor
tensor_descriptor_base_type = tensor_descriptor_type
_promote_bfloat16_to_float32 = builtin(_without_bf16)
_experimental_make_tensor_descriptor = make_tensor_descriptor
_experimental_descriptor_load = load_tensor_descriptor
_experimental_descriptor_store = store_tensor_descriptor

__all__ = [name for name in globals() if not name.startswith("__")]
