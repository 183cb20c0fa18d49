"""Figures that others have published, to set beside ours. Milliseconds; other machines, other years."""

AWS_STUDY = {
    "classification": {"sample's REST handler": 266.0, "sample's gRPC handler": 58.6},
    "detection": {"sample's REST handler": 4058.0, "sample's gRPC handler": 468.0},
}
"""Averages of 100 invocations on SageMaker. Its two detection runs used different images and returned different
outputs: https://aws.amazon.com/blogs/machine-learning/
reduce-compuer-vision-inference-latency-using-grpc-with-tensorflow-serving-on-amazon-sagemaker/"""

CLIENT_STUDY = "https://miguel-mendez-ai.com/2023/02/24/torchserve-grpc"
CLIENT_STUDY_ECHO = {
    "360x640": {
        "basic, REST": 72.3,
        "basic, gRPC": 9.3,
        "base64, REST": 94.3,
        "base64, gRPC": 17.9,
        "binary, REST": 57.2,
        "binary, gRPC": 12.0,
    },
    "720x1280": {
        "basic, REST": 61.1,
        "basic, gRPC": 9.0,
        "base64, REST": 235.0,
        "base64, gRPC": 92.6,
        "binary, REST": 87.2,
        "binary, gRPC": 57.0,
    },
    "1080x1920": {
        "basic, REST": 58.3,
        "basic, gRPC": 9.7,
        "base64, REST": 805.6,
        "base64, gRPC": 279.3,
        "binary, REST": 190.9,
        "binary, gRPC": 197.4,
    },
}
"""Tables 1 to 3: FastAPI and grpc.aio on Kubernetes, average time of twenty requests at once."""

CLIENT_STUDY_TORCHSERVE = {
    "360x640": {"base64, REST": 884.0, "binary, REST": 628.0, "binary, gRPC": 645.0},
    "720x1280": {"base64, REST": 1262.0, "binary, REST": 946.0, "binary, gRPC": 927.0},
    "1080x1920": {"base64, REST": 2188.0, "binary, REST": 1384.0, "binary, gRPC": 1422.0},
}
"""Tables 4 to 6: TorchServe with densenet161 on a GPU."""

PROTOCOL_PAGES = "https://github.com/openvinotoolkit/model_server/tree/v2022.3/client/python/kserve-api/samples"
PROTOCOL_FORMS = {"JPEG bytes, gRPC": 11.6, "JPEG bytes, REST": 12.6, "raw, REST": 28.8}
"""Averages that the pages of OpenVINO Model Server's samples show for a ResNet-50 and one image at a time."""

LOAD_STUDY = "https://github.com/martynas-subonis/model-serving"
LOAD_STUDY_ONNX = {"throughput": 255.5, "average": 195.7, "memory_mb": 359.1, "start": 1.40}
"""FastAPI + ONNX Runtime, 4 cores of an Apple M2 Max, 4 workers, 50 clients, 304 kB of base64 JSON."""

OPENVINO_PAGE = "https://docs.openvino.ai/2022.2/openvino_docs_performance_benchmarks_ovms.html"
OPENVINO_PER_CORE = {
    ("mobilenet_v2", "f32"): (81.0, 70.0),
    ("mobilenet_v2", "INT8"): (258.0, 158.0),
    ("resnet50", "f32"): (13.5, None),
    ("resnet50", "INT8"): (52.0, None),
}
"""Images a second for a core of a Xeon Platinum 8260M, prepared tensors: OpenVINO alone, and through OpenVINO Model
Server with clients on another machine, whose work is not counted."""
