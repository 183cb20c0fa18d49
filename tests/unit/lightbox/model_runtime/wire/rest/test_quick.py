"""Regular lists: the fast path reads what the full walk reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightbox.model_runtime.wire import dtypes
from lightbox.model_runtime.wire.rest import quick
from lightbox.model_runtime.wire.rest.predict_body import read_predict_document
from support.carried_arrays import CARRIED, LIMIT, Array


@pytest.mark.extended
@pytest.mark.parametrize("number", sorted(set(CARRIED) - {dtypes.DT_BOOL, dtypes.DT_STRING}))
def test_the_quick_path_reads_what_the_walk_reads(number: int) -> None:
    @LIMIT
    @given(CARRIED[number], st.booleans(), st.booleans())
    def check(array: Array, by_row: bool, named: bool) -> None:
        values: Any = array.tolist()
        if named:
            values = [{"x": item} for item in values] if by_row else {"x": values}
        types = {"x": number}
        found = quick.regular(values, by_row, types)
        document = {"instances" if by_row else "inputs": values}
        walked = read_predict_document(document, lambda name: types).inputs["x"]
        if found is not None:
            np.testing.assert_array_equal(found["x"], walked)
            assert found["x"].dtype == walked.dtype
        else:
            assert not np.isfinite(array).all()

    check()
