"""What to put on the wire: the prepared tensor, raw pixels, or the image's own bytes."""

from __future__ import annotations

from benchmark.clients.base import Load
from benchmark.declarations import Experiment, Scale, Scenario, Variant
from benchmark.scenarios import common

FORMS = {
    "float32 tensor": "mobilenet_v2",
    "uint8 pixels": "mobilenet_v2_uint8",
    "encoded image": "mobilenet_v2_bytes",
}


def scenario(scale: Scale) -> Scenario:
    """Declare the scenario."""
    calls, rounds = scale.pick((8, 2), (20, 5))
    variants = [
        Variant(f"{form}, {name}", common.lightbox(), common.post_image(model, transport))
        for form, model in FORMS.items()
        for transport, name in (("rest", "REST"), ("grpc", "gRPC"))
    ]
    floor = Variant(common.FLOOR, common.lightbox(), common.classification_floor())
    return Scenario(
        key="wire",
        title="What to put on the wire",
        question="The same network can be exported to take a prepared float32 tensor, raw uint8 pixels, or the "
        "encoded image, which its graph then decodes. Which of them should cross which wire?",
        experiments=(
            Experiment(
                key="forms",
                title="mobilenet_v2 in three forms of input",
                variants=(*variants, floor),
                load=Load(calls),
                rounds=rounds,
                floor=common.FLOOR,
                counted=4,
            ),
        ),
        notes=(
            "In the form `encoded image` decoding and resizing are the graph's part: the sidecar only reads the "
            "image's header, and the time moves from the stages decode and preprocess into predict.",
        ),
    )
