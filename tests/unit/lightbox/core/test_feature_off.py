"""A feature that is off costs a worker its settings alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lightbox.features import FEATURES
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.model.plan import ModelServerAddress, ServingPlan
from support import commands
from support.isolation import clean_environ
from support.stack import REPOSITORY

WORKER = """
import json
import sys

from lightbox.serving.worker import wsgi_app

wsgi_app(sys.argv[1])
print(json.dumps([name for name in sys.modules if name.startswith("lightbox.features.")]))
"""
ON_BY_DEFAULT = ("open_inference", "sagemaker")


def test_a_worker_imports_of_features_that_are_off_their_settings_alone(tmp_path: Path) -> None:
    plan = ServingPlan(
        models={"mean": PlannedModel(name="mean", base_path=tmp_path, options=ModelOptions())},
        default_model="mean",
        model_servers=(ModelServerAddress(grpc_socket=Path("/run/x.sock"), grpc_port=1, rest_port=2),),
    )
    plan.write(tmp_path / "plan.json")
    imported = json.loads(python(WORKER, str(tmp_path / "plan.json")))
    names = [f"lightbox.features.{feature.name}" for feature in FEATURES]
    allowed = {*names, *(f"{name}.settings" for name in names)}
    assert {"lightbox.features.open_inference.rest.routes", "lightbox.features.sagemaker.routes"} <= {*imported}
    assert [name for name in imported if name not in allowed and name.split(".")[2] not in ON_BY_DEFAULT] == []


def python(code: str, *arguments: str) -> str:
    """Return the output of a fresh interpreter."""
    environ = {**clean_environ(), "PYTHONPATH": str(REPOSITORY / "container")}
    command = [sys.executable, "-c", code, *arguments]
    printed = commands.output(command, env=environ)
    return printed.strip()
