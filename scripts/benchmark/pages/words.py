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
    "rest_or_grpc": Words(
        "REST or gRPC inside",
        "How much do the protocol to the model server and the handler's code cost?",
        (
            "Each variant gets the same 1024x768 JPEG through boto3's `invoke_endpoint` and returns the same outputs.",
            "The sample's handlers follow the AWS sample: `json.dumps(tensor.tolist())` with `requests.post`, or "
            "`make_tensor_proto` with a new channel for each call. They run as `inference.py` in Lightbox.",
            "An image for mobilenet_v2 is 602 kB over gRPC and four times as much as JSON. REST has no output filter: "
            "the detector returns eight outputs (40 MB of numbers) where the client reads four.",
            "AWS published, on SageMaker: 266 ms over REST and 58.6 ms over gRPC for classification, 4 058 and 468 ms "
            "for detection (its two detection runs had different images and outputs).",
        ),
    ),
    "wire": Words(
        "What to send",
        "Which format should a client send, and which input should a model take?",
        (
            "The first table varies the model's input and the protocol inside. With `encoded image` the graph decodes.",
            "gRPC is ModelInfer of the Open Inference Protocol. Raw tensors are 224x224, the model's size.",
            "Twenty requests start together; the latency is that of the last response.",
        ),
    ),
    "load": Words(
        "Load",
        "How much does one machine carry, at what latency and memory, beside other servers?",
        (
            "The bound uses Lightbox's decoder and resize and OpenVINO (`scripts/benchmark/bound.py`).",
            "The first two tables repeat a [study](https://github.com/martynas-subonis/model-serving), here with two "
            "workers: 50 clients, a JPEG of 225 kB. FastAPI resizes in the graph, without a filter, like one Lightbox "
            "row. The others use Pillow's bicubic filter.",
            "The networks have equal weights. ONNX Runtime has one thread in each FastAPI worker, as in the study; in "
            "LitServe and BentoML its threads share the cores.",
            "`Lightbox` is `serve.sh serve` with TensorFlow and its default threads. `make serve` uses engine auto.",
            "INT8 models are calibrated with crops of two photographs: read their CPU time, not their accuracy. "
            "ResNet-50 and MobileNetV3Small have random weights.",
        ),
    ),
    "scale": Words(
        "Scale",
        "How do latency and throughput change with clients, image size, batch size and loaded models?",
    ),
}
"""By the scenario's key."""
