"""Models whose calls block at a door until the test opens it, or until a deadline, without using CPU time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lightbox.model_runtime.wire.messages import prediction_log_pb2
from support.models import copy_made
from support.patience import PATIENCE, poll

OWN = "tests/support/held.py"
MANY_HELD = {"SAGEMAKER_TFS_INTER_OP_PARALLELISM": "32"}
"""Settings of a stack where so many calls may stand at a door; by itself TensorFlow has a thread for each core."""


class Door:
    """Blocks the calls of a held model. It starts shut and opens at the end of its ``with`` block.

    It is a named pipe: opening it for writing blocks in the kernel until it is open for reading.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._reader: int | None = None
        folder.mkdir(parents=True)
        os.mkfifo(folder / "door")

    @property
    def code(self) -> str:
        """A line of Python that blocks at the door, for users' code; other threads of the process continue."""
        mark = f"os.close(tempfile.mkstemp('', 'came-', {str(self.folder)!r})[0])"
        return f"import os, tempfile; {mark}; open({str(self.folder / 'door')!r}, 'w').close()"

    @property
    def came(self) -> int:
        """The number of calls since it was last shut, including those that passed."""
        return len(list(self.folder.glob("came-*")))

    def wait_for(self, calls: int = 1) -> None:
        """Wait for this many calls since it was last shut."""
        assert any(self.came >= calls for _ in poll()), f"{self.came} calls came in {PATIENCE:.0f} s, not {calls}"

    def __enter__(self) -> Door:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.open()

    def open(self) -> None:
        """Let all waiting and future calls pass."""
        if self._reader is None:
            self._reader = os.open(self.folder / "door", os.O_RDWR)

    def shut(self) -> None:
        """Block all future calls."""
        for mark in self.folder.glob("came-*"):
            mark.unlink()
        if self._reader is not None:
            os.close(self._reader)
            self._reader = None


@contextmanager
def held_file(path: Path) -> Iterator[None]:
    """Block one process that opens a file for reading, until the end of the block."""
    aside = path.with_name(f"{path.name}.aside")
    path.rename(aside)
    os.mkfifo(path)
    try:
        yield
        path.write_bytes(aside.read_bytes())
    finally:
        aside.rename(path)


def export_held_image(folder: Path, door: Door, version: int = 1) -> None:
    """Export a model of uint8 [N, 8, 8, 3] that returns its first pixel's red; above 0 the call blocks at the door.

    TensorFlow's WriteFile opens the pipe, so that calls block in any server that runs the graph. (ReadFile fails:
    it seeks, and a pipe cannot.)
    """
    _copy("held_image", _held_image, folder / str(version), door)


def held_call() -> prediction_log_pb2.PredictionLog:
    """Return a record of a warm-up that blocks a held model's load at the door."""
    record = prediction_log_pb2.PredictionLog()
    image = record.predict_log.request.inputs["image"]
    image.dtype, image.tensor_content = 4, bytes([100] * 8 * 8 * 3)
    for size in (1, 8, 8, 3):
        image.tensor_shape.dim.add(size=size)
    return record


def export_endless(folder: Path, door: Door, version: int = 1) -> None:
    """Export a model of int64 [N], x, that returns x; with a first x above 0 it never returns; the door counts it.

    The call blocks on an empty queue: TensorFlow stops that when it cancels a call. (A call that blocks at the door
    is in the kernel: it notices a deadline only when the door opens.)
    """
    _copy("endless", _endless, folder / str(version), door)


def _copy(name: str, graph: Callable[[Any], Any], folder: Path, door: Door) -> None:
    """Copy a model whose asset names the door; ``graph`` makes the served function."""

    def write(version: Path) -> None:
        import tensorflow as tf

        asset = version.with_name("place")
        asset.touch()
        module = tf.Module()
        module.place = tf.saved_model.Asset(str(asset))
        module.serve = graph(module)
        signatures = {"serving_default": module.serve.get_concrete_function()}
        tf.saved_model.save(module, str(version), signatures=signatures)

    copy_made(name, write, folder, OWN)
    (folder / "assets" / "place").write_text(str(door.folder))


def _mark(place: Any) -> Any:
    import tensorflow as tf

    name = tf.strings.as_string(tf.random.uniform([], 0, 1 << 62, tf.int64))
    return tf.io.write_file(tf.strings.join([place, "/came-", name]), "")


def _held_image(module: Any) -> Any:
    import tensorflow as tf

    def wait(red: Any) -> Any:
        place = tf.io.read_file(module.place)
        with tf.control_dependencies([_mark(place)]):
            passed = tf.io.write_file(tf.strings.join([place, "/door"]), "")
        with tf.control_dependencies([passed]):
            return tf.identity(red)

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 3], tf.uint8, name="image")])  # type: ignore[untyped-decorator]
    def serve(image: Any) -> dict[str, Any]:
        red = tf.cast(image[0, 0, 0, 0], tf.int64)
        red = tf.cond(red > 0, lambda: wait(red), lambda: red)
        return {"red": tf.fill([tf.shape(image)[0]], red)}

    return serve


def _endless(module: Any) -> Any:
    import tensorflow as tf

    def wait(x: Any) -> Any:
        with tf.control_dependencies([_mark(tf.io.read_file(module.place))]):
            queue = tf.raw_ops.FIFOQueueV2(component_types=[tf.int64], shared_name="empty")
            (never,) = tf.raw_ops.QueueDequeueV2(handle=queue, component_types=[tf.int64])
        return x + never

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="x")])  # type: ignore[untyped-decorator]
    def serve(x: Any) -> dict[str, Any]:
        return {"y": tf.cond(x[0] > 0, lambda: wait(x), lambda: x)}

    return serve
