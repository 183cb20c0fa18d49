"""A SavedModel that OpenVINO runs signature by signature, with TensorFlow for the rest."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lightbox.model_runtime.engines.base import Array, Runner
from lightbox.model_runtime.engines.engine import Choice
from lightbox.model_runtime.engines.openvino.compiled import Compiled
from lightbox.model_runtime.engines.openvino.guards import LARGEST
from lightbox.model_runtime.engines.samples import batches as samples_of
from lightbox.model_runtime.wire.messages import meta_graph_pb2
from lightbox.model_runtime.wire.status import Code, StatusError, invalid

log = logging.getLogger("model_server")

_LARGEST_FLOAT = float(np.finfo(np.float32).max)


class OpenVinoWithFallback:
    """Runs signatures with OpenVINO, and the rest with TensorFlow if allowed.

    TensorFlow is opened on first use: for another signature or tensor, an input that the signature does not declare,
    NaN, infinity or a value beyond ``LARGEST``, or after an error of OpenVINO, so that errors have TensorFlow's texts.
    """

    def __init__(
        self,
        meta_graph: meta_graph_pb2.MetaGraphDef,
        compiled: Mapping[str, Compiled],
        choices: Mapping[str, Choice],
        open_tensorflow: Callable[[], Runner] | None,
    ) -> None:
        self.choices = choices
        self.signatures: dict[str, meta_graph_pb2.SignatureDef] = {}
        for name, signature in meta_graph.signature_def.items():
            self.signatures[name] = meta_graph_pb2.SignatureDef()
            self.signatures[name].CopyFrom(signature)
        self._compiled = compiled
        self._open_tensorflow = open_tensorflow
        self._tensorflow: Runner | None = None
        self._lock = threading.Lock()
        # A request for another signature should not wait for TensorFlow's start.
        if open_tensorflow is not None and len(compiled) < len(choices):
            self._fallback()

    def warm(self, batches: Sequence[int]) -> None:
        """Run made-up inputs: OpenVINO prepares itself for each batch size in its first call."""
        for compiled in self._compiled.values():
            fetches = [info.name for info in compiled.signature.outputs.values()]
            for count in batches:
                try:
                    compiled.run(samples_of(compiled.signature, count)[0], fetches)
                except StatusError as error:
                    log.info(
                        "signature %s: made-up inputs of %d rows are refused: %s", compiled.name, count, error.message
                    )

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str], options: bytes = b"") -> list[Array]:
        """Return the values of ``fetches``; see ``Runner.run``."""
        compiled = next((item for item in self._compiled.values() if item.takes(feeds, fetches)), None)
        if compiled is None:
            return self._refused(feeds, fetches).run(feeds, fetches, options)
        why = compiled.misfit(feeds)
        if self._open_tensorflow is None:
            if why is not None:
                raise invalid(why)
            return compiled.run(feeds, fetches, options)
        if why is not None or not all(_is_within(array, LARGEST) for array in feeds.values()):
            return self._fallback().run(feeds, fetches, options)
        try:
            results = compiled.run(feeds, fetches, options)
        except StatusError as error:
            if error.code == Code.DEADLINE_EXCEEDED:
                raise
            return self._fallback().run(feeds, fetches, options)
        if not all(_is_within(array, _LARGEST_FLOAT) for array in results):
            return self._fallback().run(feeds, fetches, options)
        return results

    def _refused(self, feeds: Mapping[str, Array], fetches: Sequence[str]) -> Runner:
        """Return TensorFlow for calls without a compiled signature; raise StatusError if it is not allowed."""
        if self._open_tensorflow is not None:
            return self._fallback()
        for name, signature in self.signatures.items():
            names = {info.name for info in signature.outputs.values()}
            if names.issuperset(fetches) and {info.name for info in signature.inputs.values()} == set(feeds):
                why = self.choices[name].reason if name in self.choices else "it is not public"
                raise StatusError(Code.UNIMPLEMENTED, f"engine openvino does not take signature {name!r}: {why}")
        raise StatusError(Code.UNIMPLEMENTED, "engine openvino answers the inputs of a whole signature only")

    def _fallback(self) -> Runner:
        with self._lock:
            if self._tensorflow is None:
                assert self._open_tensorflow is not None
                self._tensorflow = self._open_tensorflow()
            return self._tensorflow

    def close(self) -> None:
        """Free the models; no call may be in progress."""
        self._compiled = {}
        with self._lock:
            if self._tensorflow is not None:
                self._tensorflow.close()


def _is_within(array: Array, limit: float) -> bool:
    """Return whether all floats are from ``-limit`` to ``limit``, without NaN."""
    return array.dtype.kind != "f" or not array.size or bool(array.max() <= limit and array.min() >= -limit)
