"""The modules that work without servers and transports, and a worker's imports for features that are off."""

from __future__ import annotations

import sys

from support import commands
from support.isolation import clean_environ
from support.stack import REPOSITORY

PREDICTS = """
import sys

for name in ("flask", "werkzeug", "gunicorn", "grpc", "requests"):
    sys.modules[name] = None  # importing it raises ModuleNotFoundError

import io
from pathlib import Path

from PIL import Image

from lightbox.core.pipeline import Pipeline, PipelineOptions
from lightbox.core.request import Body, Call
from lightbox.base.request_context import RequestContext
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.model.spec import SignatureSpec, TensorSpec
from lightbox.model.plan import PlannedModels, ServingPlan
from support.fake_transport import FakeTransport

transport = FakeTransport()
inputs = {"image": TensorSpec("image", "uint8", (None, 8, 8, 3))}
outputs = {"mean": TensorSpec("mean", "float32", (None, 3))}
transport.serve(
    SignatureSpec("mean", 1, "serving_default", inputs, outputs),
    lambda given: {"mean": given["image"].astype("f4").mean(axis=(1, 2))},
)
model = PlannedModel(name="mean", base_path=Path("/m"), options=ModelOptions())
plan = ServingPlan(models={"mean": model}, default_model="mean", model_servers=())
pipeline = Pipeline(PlannedModels(plan), {"fake": transport}, options=PipelineOptions())
jpeg = io.BytesIO()
Image.new("RGB", (40, 30), (99, 99, 99)).save(jpeg, "jpeg")
context = RequestContext(60)
with pipeline.memory.share() as context.memory:
    answer = pipeline.run(Call(Body(pipeline.codecs, jpeg.getvalue(), "image/jpeg")), context)
print(answer.body.decode())
"""


def test_a_prediction_needs_no_server_and_no_wire() -> None:
    assert python(PREDICTS) == '{"predictions":[[99.0,99.0,99.0]]}'


def test_the_supervisor_is_small() -> None:
    """A module that the supervisor imports takes memory for as long as Lightbox runs."""
    heavy = ("numpy", "PIL", "flask", "grpc", "requests", "gunicorn", "prometheus_client", "google.protobuf")
    imports = "import sys, lightbox.cli, lightbox.supervisor.supervisor"
    assert python(f"{imports}; print([name for name in {heavy} if name in sys.modules])") == "[]"


def test_a_worker_loads_no_random_numbers_and_no_readers_of_model_files() -> None:
    """Each of them would take a megabyte of each worker."""
    heavy = ("numpy.random", "xml.etree.ElementTree", "google.protobuf.json_format")
    begins = (
        "import sys, lightbox.serving.worker, lightbox.features.open_inference.dataplane\n"
        "from lightbox.images import jpeg, resize\n"
        "resize.load_native(), jpeg.jpeg_agrees()\n"
    )
    assert python(f"{begins}print([name for name in {heavy} if name in sys.modules])") == "[]"


def python(code: str, *arguments: str) -> str:
    """Return the output of a fresh interpreter."""
    environ = {**clean_environ(), "PYTHONPATH": f"{REPOSITORY / 'container'}:{REPOSITORY / 'tests'}"}
    command = [sys.executable, "-c", code, *arguments]
    printed = commands.output(command, env=environ)
    return printed.strip()
