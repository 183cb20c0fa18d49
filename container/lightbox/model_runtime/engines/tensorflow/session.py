"""A SavedModel in TensorFlow's runtime: its session and its signatures."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from ctypes import c_char_p, c_void_p

from lightbox.model_runtime.engines.base import Array
from lightbox.model_runtime.engines.tensorflow.library import Buffer, Output, Status, tf
from lightbox.model_runtime.engines.tensorflow.rank_guard import RankGuard
from lightbox.model_runtime.engines.tensorflow.tf_tensors import from_tensor, to_tensor
from lightbox.model_runtime.wire.messages import meta_graph_pb2
from lightbox.model_runtime.wire.status import StatusError, invalid


class TensorFlowSession:
    """Runs tensors by name; any number of threads may call ``run`` at the same time."""

    def __init__(self, path: str, tags: Sequence[str], config: bytes = b"", is_guarded: bool = True) -> None:
        """Load the SavedModel in ``path``; raise StatusError with the runtime's own code and text.

        The runtime names no file of ``variables`` that it cannot read: there the text begins with their folder.

        Without ``is_guarded``, inputs may crash the process, as with tensorflow_model_server.
        """
        self._graph = tf.TF_NewGraph()
        meta_graph = tf.TF_NewBuffer()
        try:
            self._session = self._load(path, tags, config, meta_graph)
            held = Buffer.from_address(meta_graph)
            self._read_meta_graph(ctypes.string_at(held.data, held.length), is_guarded)
        except StatusError as error:
            tf.TF_DeleteGraph(self._graph)
            if "{{node RestoreV2" in error.message:
                raise StatusError(error.code, f"{path}/variables: {error.message.splitlines()[0]}") from None
            raise
        finally:
            tf.TF_DeleteBuffer(meta_graph)
        self._outputs: dict[str, Output] = {}
        self._close_lock = threading.Lock()

    def _load(self, path: str, tags: Sequence[str], config: bytes, meta_graph: int) -> int:
        options = tf.TF_NewSessionOptions()
        tag_array = (c_char_p * len(tags))(*[tag.encode() for tag in tags])
        try:
            with Status() as status:
                tf.TF_SetConfig(options, config, len(config), status.pointer)
            with Status() as status:
                session: int = tf.TF_LoadSessionFromSavedModel(
                    options,
                    None,
                    path.encode(),
                    tag_array,
                    len(tags),
                    self._graph,
                    meta_graph,
                    status.pointer,
                )
        finally:
            tf.TF_DeleteSessionOptions(options)
        return session

    def _read_meta_graph(self, data: bytes, is_guarded: bool) -> None:
        meta_graph = meta_graph_pb2.MetaGraphDef.FromString(data)
        self._guard = RankGuard(meta_graph) if is_guarded else None
        self.signatures: dict[str, meta_graph_pb2.SignatureDef] = {}
        for name, signature in meta_graph.signature_def.items():
            # A copy: a reference would keep the whole graph with its constants in memory.
            self.signatures[name] = meta_graph_pb2.SignatureDef()
            self.signatures[name].CopyFrom(signature)

    def _output(self, name: str) -> Output:
        """Return the runtime's handle of a tensor such as "serving_default_x:0"."""
        output = self._outputs.get(name)
        if output is None:
            operation_name, _, index = name.partition(":")
            operation = tf.TF_GraphOperationByName(self._graph, operation_name.encode())
            if not operation:
                text = f"Tensor {name}, specified in either feed_devices or fetch_devices"
                raise invalid(f"{text} was not found in the Graph")
            output = self._outputs[name] = Output(operation, int(index or 0))
        return output

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str], options: bytes = b"") -> list[Array]:
        """Run the graph as far as ``fetches`` need it and return their values in order.

        ``options`` is a serialized ``RunOptions``. Raises StatusError with the runtime's code and text.
        """
        if self._guard is not None:
            self._guard.check(feeds)
        feed_places = (Output * len(feeds))(*[self._output(name) for name in feeds])
        fetch_places = (Output * len(fetches))(*[self._output(name) for name in fetches])
        results = (c_void_p * len(fetches))()
        inputs = (c_void_p * len(feeds))()
        try:
            for index, array in enumerate(feeds.values()):
                inputs[index] = to_tensor(array)
            self._run(feed_places, inputs, fetch_places, results, options)
        finally:
            for tensor in inputs:
                if tensor:
                    tf.TF_DeleteTensor(tensor)
        return _take(results)

    def _run(
        self,
        feed_places: ctypes.Array[Output],
        inputs: ctypes.Array[c_void_p],
        fetch_places: ctypes.Array[Output],
        results: ctypes.Array[c_void_p],
        options: bytes,
    ) -> None:
        buffer = tf.TF_NewBufferFromString(options, len(options)) if options else None
        try:
            with Status() as status:
                tf.TF_SessionRun(
                    *(self._session, buffer, feed_places, inputs, len(inputs)),
                    *(fetch_places, results, len(results), None, 0, None, status.pointer),
                )
        finally:
            if buffer:
                tf.TF_DeleteBuffer(buffer)

    def close(self) -> None:
        """Free the session and its graph; no call may be in progress."""
        with self._close_lock:
            if not self._session:
                return
            with Status() as status:
                tf.TF_DeleteSession(self._session, status.pointer)
            tf.TF_DeleteGraph(self._graph)
            self._session = 0


def _take(results: ctypes.Array[c_void_p]) -> list[Array]:
    """Return the results as arrays; on an error the others are freed."""
    pending = list(results)
    arrays: list[Array] = []
    try:
        while pending:
            arrays.append(from_tensor(pending.pop(0)))
    finally:
        for tensor in pending:
            tf.TF_DeleteTensor(tensor)
    return arrays
