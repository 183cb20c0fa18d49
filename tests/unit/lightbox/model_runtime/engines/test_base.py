"""The errors of runtimes."""

from __future__ import annotations

import numpy as np

from lightbox.model_runtime.engines.base import failure
from support.parameters import each


@each(
    ("text", "code", "is_unfit"),
    [
        ("while running Reshape node. Name:'/memory_attention/index' Status Message: {2}", "INVALID_ARGUMENT", True),
        ("[CPU] Reshape node with name '/allocate/index' has {2}", "INVALID_ARGUMENT", True),
        ("Name:'/a' indices element out of data bounds", "INVALID_ARGUMENT", False),
        ("Name:'/a' Failed to allocate memory for requested buffer of size 9", "INTERNAL", False),
        ("std::bad_alloc", "INTERNAL", False),
    ],
)
def test_names_of_nodes_are_no_reasons(text: str, code: str, is_unfit: bool) -> None:
    error = failure("R", RuntimeError(text), {"x": np.ones(2)}, has_open_sizes=True)
    assert (error.code.name, error.message.startswith("expected inputs of sizes")) == (code, is_unfit)
