"""Clients of the Open Inference Protocol: by gRPC, or the same request over REST."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmark.clients import Call, Sample
from benchmark.clients.http import RESPONSE_SECONDS, HttpClient
from benchmark.servers import Address

METHOD = "/inference.GRPCInferenceService/ModelInfer"


@dataclass(frozen=True)
class InferClient:
    """Calls ModelInfer with one input: ``data`` is its content in raw_input_contents."""

    model: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes = field(repr=False)
    input_name: str = "input_tensor"
    metadata: tuple[tuple[str, str], ...] = ()

    @asynccontextmanager
    async def connected(self, address: Address) -> AsyncIterator[Call]:
        """Open a channel to the stack's gRPC front; each call builds and serializes a new message."""
        import grpc

        from lightbox.features.open_inference.grpc import messages as grpc_messages

        request_class = grpc_messages.message_class("inference.ModelInferRequest")
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        async with grpc.aio.insecure_channel(address.front, options=options) as channel:
            infer: Any = channel.unary_unary(
                METHOD,
                request_serializer=request_class.SerializeToString,
                response_deserializer=grpc_messages.ModelInferResponse.FromString,
            )

            async def call(sample: Sample) -> None:
                message: Any = request_class(model_name=self.model, raw_input_contents=[self.data])
                message.inputs.add(name=self.input_name, datatype=self.datatype, shape=self.shape)
                await infer(message, timeout=RESPONSE_SECONDS, metadata=self.metadata)
                sample.bytes_sent += len(self.data)

            yield call

    def over_rest(self) -> HttpClient:
        """Return a client that posts the same input with the binary extension and requests binary output."""
        parameters = {"binary_data_size": len(self.data)}
        tensor = {"name": self.input_name, "datatype": self.datatype, "shape": self.shape, "parameters": parameters}
        text = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        headers = {"Inference-Header-Content-Length": str(len(text))}
        return HttpClient(text + self.data, "application/octet-stream", f"/v2/models/{self.model}/infer", headers)
