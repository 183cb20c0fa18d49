"""Arrays of every dtype that bodies carry, and values of JSON, made by Hypothesis."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lightbox.model_runtime.wire import dtypes

Array = np.ndarray[Any, np.dtype[Any]]
LIMIT = settings(max_examples=60, deadline=None)
SHAPES = npst.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)
CARRIED = {
    dtypes.DT_FLOAT: npst.arrays(np.float32, SHAPES, elements=st.floats(width=32, allow_subnormal=False)),
    dtypes.DT_DOUBLE: npst.arrays(np.float64, SHAPES, elements=st.floats(allow_subnormal=False)),
    dtypes.DT_INT32: npst.arrays(np.int32, SHAPES),
    dtypes.DT_UINT8: npst.arrays(np.uint8, SHAPES),
    dtypes.DT_INT16: npst.arrays(np.int16, SHAPES),
    dtypes.DT_INT8: npst.arrays(np.int8, SHAPES),
    dtypes.DT_INT64: npst.arrays(np.int64, SHAPES),
    dtypes.DT_BOOL: npst.arrays(np.bool_, SHAPES),
    dtypes.DT_UINT32: npst.arrays(np.uint32, SHAPES),
    dtypes.DT_UINT64: npst.arrays(np.uint64, SHAPES),
    dtypes.DT_STRING: npst.arrays(object, SHAPES, elements=st.binary(max_size=6)),
}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
