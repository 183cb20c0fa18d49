"""A model that never answers: only the deadline ends a call. It uses no processor meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.held import Door
from support.models import copy_made

OWN = "tests/support/endless.py"


def export_endless(folder: Path, door: Door, version: int = 1) -> None:
    """Export a model of int64 [N], x, that answers x; a first one above 0 is never answered, and the door counts it.

    The call waits at an empty queue: TensorFlow gives that up when it cancels a call. (What waits at the door itself
    is in the kernel: it hears of a deadline when the door opens.)
    """
    target = folder / str(version)
    copy_made("endless", _save, target, OWN)
    (target / "assets" / "place").write_text(str(door.folder))


def _save(folder: Path) -> None:
    import tensorflow as tf

    asset = folder.with_name("place")
    asset.touch()
    module = tf.Module()
    module.place = tf.saved_model.Asset(str(asset))

    def wait(x: Any) -> Any:
        name = tf.strings.as_string(tf.random.uniform([], 0, 1 << 62, tf.int64))
        mark = tf.io.write_file(tf.strings.join([tf.io.read_file(module.place), "/came-", name]), "")
        with tf.control_dependencies([mark]):
            queue = tf.raw_ops.FIFOQueueV2(component_types=[tf.int64], shared_name="empty")
            (never,) = tf.raw_ops.QueueDequeueV2(handle=queue, component_types=[tf.int64])
        return x + never

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="x")])  # type: ignore[untyped-decorator]
    def serve(x: Any) -> dict[str, Any]:
        return {"y": tf.cond(x[0] > 0, lambda: wait(x), lambda: x)}

    module.serve = serve
    tf.saved_model.save(module, str(folder), signatures={"serving_default": serve.get_concrete_function()})
