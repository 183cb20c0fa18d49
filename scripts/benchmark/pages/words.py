"""The text of the pages; a change of text needs no new run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """Title, question and notes of a scenario's page."""

    title: str
    question: str
    notes: tuple[str, ...] = ()


WORDS = {
    "wire": Words(
        "What to send",
        "Which format should a client send, and which input should a model take?",
        (
            "The first table varies the model's input and the protocol inside. With `encoded image` the graph decodes.",
            "gRPC is ModelInfer of the Open Inference Protocol. Raw tensors are 224x224, the model's size.",
        ),
    ),
    "load": Words(
        "Load",
        "How much does one machine carry, at what latency and memory, beside other servers?",
        (
            "The bound uses Lightbox's decoder and resize and OpenVINO (`scripts/benchmark/bound.py`).",
            "The network has the same weights in all rows, and each server two workers. ONNX Runtime has one thread in "
            "each of FastAPI's; in LitServe and BentoML its threads share the cores. They use Pillow's bicubic filter.",
            "`Lightbox` is `serve.sh serve` with TensorFlow and its default threads. `make serve` uses engine auto.",
            "The INT8 model is calibrated with crops of two photographs: read its CPU time, not its accuracy.",
        ),
    ),
    "scale": Words(
        "Scale",
        "How do latency and throughput change with clients, image size, batch size and loaded models?",
    ),
}
"""By the scenario's key."""
