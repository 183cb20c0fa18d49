"""TensorFlow's C library: its release, and the errors of its calls."""

from __future__ import annotations

from importlib.metadata import version as installed

import pytest

from lightbox.model_runtime.engines.tensorflow.library import Status, tf, version
from lightbox.model_runtime.wire.status import Code, StatusError

pytestmark = pytest.mark.extended


def test_the_release_is_that_of_the_package() -> None:
    assert version() == installed("tensorflow-cpu")


def test_a_status_raises_its_error() -> None:
    options = tf.TF_NewSessionOptions()
    with pytest.raises(StatusError) as raised, Status() as status:
        tf.TF_SetConfig(options, b"\xff", 1, status.pointer)
    tf.TF_DeleteSessionOptions(options)
    assert (raised.value.code, "ConfigProto" in raised.value.message) == (Code.INVALID_ARGUMENT, True)
