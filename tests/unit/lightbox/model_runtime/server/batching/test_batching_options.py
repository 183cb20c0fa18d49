"""Batching options in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.model_runtime.server.batching.batching_options import BatchingOptions, read_options
from lightbox.model_runtime.wire.status import StatusError


def test_parameters_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "batching"
    path.write_text(
        "max_batch_size { value: 8 } batch_timeout_micros { value: 1500 } max_enqueued_batches { value: 3 }\n"
        'num_batch_threads { value: 2 } thread_pool_name { value: "x" } pad_variable_length_inputs: true\n'
        "allowed_batch_sizes: 4 allowed_batch_sizes: 8"
    )
    assert read_options(str(path)) == BatchingOptions(
        8, 0.0015, 3, 2, (4, 8), pad_variable_length_inputs=True, max_execution_batch_size=8
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "max_batch_size { value: 8 } allowed_batch_sizes: 4",
            "Last entry in allowed_batch_sizes must match max_batch_size; last entry was 4; expected 8",
        ),
        (
            "max_batch_size { value: 8 } allowed_batch_sizes: 9 allowed_batch_sizes: 8",
            "allowed_batch_sizes entries must be monotonically increasing",
        ),
        ("num_batch_threads { value: 0 }", "num_batch_threads must be positive; was 0"),
    ],
)
def test_parameters_that_make_no_sense(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "batching"
    path.write_text(text)
    with pytest.raises(StatusError) as caught:
        read_options(str(path))
    assert caught.value.message == error
