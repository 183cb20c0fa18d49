"""Clients of the Open Inference Protocol; by gRPC one ModelInfer after another, or waves of them."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

from benchmark.clients.base import Load, Sample, run_one_by_one
from benchmark.clients.http import HttpClient
from benchmark.servers.address import Address
from lightbox.client.invoke import read_server_timing

SERVICE = "/inference.GRPCInferenceService/"


@dataclass(frozen=True)
class InferClient:
    """Calls ModelInfer with one input: ``data`` is its content in raw_input_contents."""

    model: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes = field(repr=False)
    input_name: str = "input_tensor"

    def open(self, address: Address) -> InferSession:
        """Return a session with a channel to the stack's gRPC front."""
        return InferSession(self, address.front)

    def over_rest(self) -> HttpClient:
        """Return a client that posts the same input behind its JSON, and wants the answer so too."""
        parameters = {"binary_data_size": len(self.data)}
        tensor = {"name": self.input_name, "datatype": self.datatype, "shape": self.shape, "parameters": parameters}
        text = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        headers = {"Inference-Header-Content-Length": str(len(text))}
        return HttpClient(text + self.data, "application/octet-stream", f"/v2/models/{self.model}/infer", headers)


class InferSession:
    """One channel; each message is made and serialized anew, as a caller's would be."""

    def __init__(self, spec: InferClient, target: str) -> None:
        import grpc

        from lightbox.features.open_inference import grpc_messages

        self._spec = spec
        self._request_class = grpc_messages.message_class("inference.ModelInferRequest")
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        self._channel = grpc.insecure_channel(target, options=options)
        self._infer: Any = self._channel.unary_unary(
            SERVICE + "ModelInfer",
            request_serializer=self._request_class.SerializeToString,
            response_deserializer=grpc_messages.ModelInferResponse.FromString,
        )

    def run(self, load: Load) -> Sample:
        """Put a load on the gRPC front, and measure it."""
        return self._waves(load) if load.waves else run_one_by_one(load, self._call)

    def _call(self, sample: Sample) -> None:
        answer, call = self._infer.with_call(self._message(), timeout=60)
        self._note(answer, call, sample)

    def _waves(self, load: Load) -> Sample:
        sample = Sample()
        cpu = time.process_time()
        for _ in range(max(1, load.requests // load.clients)):
            started = time.perf_counter()
            for call in [self._infer.future(self._message(), timeout=60) for _ in range(load.clients)]:
                self._note(call.result(), call, sample)
            sample.latencies.append(time.perf_counter() - started)
            sample.seconds += sample.latencies[-1]
            sample.answers += load.clients
        sample.cpu_seconds = time.process_time() - cpu
        return sample

    def _note(self, answer: Any, call: Any, sample: Sample) -> None:
        sample.bytes_received += answer.ByteSize()
        sample.bytes_sent += len(self._spec.data)
        trailing = dict(call.trailing_metadata() or ())
        sample.add_stages(read_server_timing(trailing.get("server-timing", "")))

    def _message(self) -> Any:
        spec = self._spec
        message = self._request_class(model_name=spec.model, raw_input_contents=[spec.data])
        message.inputs.add(name=spec.input_name, datatype=spec.datatype, shape=spec.shape)
        return message

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()
