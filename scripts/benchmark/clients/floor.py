"""The floor: one process that decodes and resizes with Pillow and makes one direct gRPC Predict."""

from __future__ import annotations

import io
import time
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from benchmark.clients.base import Load, Sample, run_one_by_one
from benchmark.servers.address import Address

Tensor = npt.NDArray[np.generic]


@dataclass(frozen=True)
class FloorClient:
    """What one request needs at least, without a server around it.

    ``prepared`` leaves the image out: the tensor is made once, and only the direct call is measured.
    ``outputs`` is the output filter, empty for all.
    """

    image: bytes = field(repr=False)
    model: str
    input_name: str
    width: int
    height: int
    scaling: Literal["none", "tf"]
    dtype: Literal["float32", "uint8"] = "float32"
    outputs: tuple[str, ...] = ()
    prepared: bool = False

    def open(self, address: Address) -> FloorSession:
        """Return a session with a channel straight to the model server."""
        return FloorSession(self, address.grpc)


class FloorSession:
    """One channel, official messages, bytes as ``tensor_content``."""

    def __init__(self, spec: FloorClient, target: str) -> None:
        import grpc
        from PIL import Image

        from lightbox.tfs_wire.messages import predict_pb2, types_pb2
        from lightbox.tfs_wire.stubs import prediction_service_pb2_grpc

        self._spec = spec
        self._image_class = Image
        self._request_class = predict_pb2.PredictRequest
        self._number = types_pb2.DataType.Value(f"DT_{'FLOAT' if spec.dtype == 'float32' else 'UINT8'}")
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        self._channel = grpc.insecure_channel(target, options=options)
        self._predict: Any = prediction_service_pb2_grpc.PredictionServiceStub(self._channel).Predict
        self._tensor: Tensor | None = self.prepare() if spec.prepared else None

    def run(self, load: Load) -> Sample:
        """Put a load on the model server, and measure it."""
        return run_one_by_one(load, self._call)

    def _call(self, sample: Sample) -> None:
        started = time.perf_counter()
        cpu = time.thread_time()
        tensor = self.prepare() if self._tensor is None else self._tensor
        prepared = time.perf_counter()
        prepare_cpu = time.thread_time() - cpu
        request = self.request(tensor)
        answer = self._predict(request, timeout=120)
        sample.bytes_sent += request.ByteSize()
        sample.bytes_received += answer.ByteSize()
        predict = time.perf_counter() - prepared
        sample.add_stages({"decode": (prepared - started) * 1000, "predict": predict * 1000})
        sample.add_stages({"decode_cpu": prepare_cpu * 1000})

    def prepare(self) -> Tensor:
        """Decode, resize and scale as the model wants it: [1, H, W, 3]."""
        spec = self._spec
        image = self._image_class.open(io.BytesIO(spec.image))
        # convert would copy an image that is RGB already: what is not needed is no part of the floor.
        assert image.mode == "RGB", "the benchmark's images are RGB"
        pixels = np.asarray(image.resize((spec.width, spec.height)), spec.dtype)[None]
        if spec.scaling == "tf":
            return pixels / np.float32(127.5) - np.float32(1)
        return pixels

    def request(self, tensor: Tensor) -> Any:
        """Return the PredictRequest for a prepared tensor."""
        request = self._request_class(output_filter=self._spec.outputs)
        request.model_spec.name = self._spec.model
        request.model_spec.signature_name = "serving_default"
        proto = request.inputs[self._spec.input_name]
        proto.dtype = self._number
        proto.tensor_content = tensor.tobytes()
        for size in tensor.shape:
            proto.tensor_shape.dim.add().size = size
        return request

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()
