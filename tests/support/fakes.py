"""The sidecar's app on a fake model server, and test images."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from flask import Flask
from PIL import Image

from lightbox.base.request_context import Requests
from lightbox.core.app import create_app
from lightbox.core.request import Middleware
from lightbox.core.services import Services
from lightbox.features import enabled
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions, ResolvedOptions
from lightbox.model.plan import ModelServerAddress, ServingPlan
from lightbox.model.spec import Array, SignatureSpec, TensorSpec
from lightbox.serving.settings_loading import load_settings
from lightbox.serving.worker import make_pipeline, operations, refused_headers
from lightbox.transports.base import Transport
from lightbox.user_code.registry import UserCode
from support.fake_transport import FakeTransport
from support.patience import PATIENCE

Tensor = tuple[str, tuple[int | None, ...] | None]


def signature(
    model: str, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor], version: int = 1
) -> SignatureSpec:
    """Return a signature named serving_default."""

    def specs(tensors: Mapping[str, Tensor]) -> dict[str, TensorSpec]:
        return {name: TensorSpec(name, dtype, shape) for name, (dtype, shape) in tensors.items()}

    return SignatureSpec(model, version, "serving_default", specs(inputs), specs(outputs))


def mean_model(name: str = "mean", version: int = 1, side: int | None = 4) -> SignatureSpec:
    """Return the signature of a model for ``channel_means``: uint8 pixels to [N, 3]."""
    return signature(name, {"image": ("uint8", (None, side, side, 3))}, {"mean": ("float32", (None, 3))}, version)


def channel_means(inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Compute the output of ``mean_model``."""
    return {"mean": inputs["image"].astype("f4").mean(axis=(1, 2))}


def mean_server() -> FakeTransport:
    """Return a fake model server of ``mean_model``."""
    fake = FakeTransport()
    fake.serve(mean_model(), channel_means)
    return fake


def fake_app(
    transport: Transport,
    models: Mapping[str, ModelOptions],
    environ: Mapping[str, str] | None = None,
    code: Path | None = None,
    around: Sequence[Middleware] = (),
    files: Path = Path("/m"),
) -> Flask:
    """Return the app on a fake model server behind both wires; the first model is the default.

    ``files`` is the folder of each model, ``code`` one with an ``inference.py`` for all. A request's timeout is the
    test's patience, unless ``environ`` sets another; "" selects Lightbox's default.
    """
    settings = load_settings({"LIGHTBOX_REQUEST_TIMEOUT_SECONDS": str(PATIENCE), **(environ or {})})
    plan = ServingPlan(
        models={
            name: PlannedModel(
                name=name,
                base_path=files,
                options=o,
                code_dirs=(code,) if code else (),
                names_images_only=isinstance(o, ResolvedOptions) and o.for_images_only,
            )
            for name, o in models.items()
        },
        default_model=next(iter(models)),
        model_servers=(ModelServerAddress(grpc_socket=Path("/run/x.sock"), grpc_port=1, rest_port=2),),
        shared_code_dirs=(code,) if code else (),
    )
    user_code = UserCode()
    user_code.load(plan.models.values())
    requests = Requests()
    transports = {"grpc": transport, "rest": transport}
    pipeline = make_pipeline(settings, plan, transports, user_code, alone=requests.is_alone)
    features, run_dir = enabled(settings), Path("/nowhere")
    own = [part for feature in features for part in feature.around(settings, run_dir, pipeline)]
    refused = {} if around else refused_headers(features)
    return create_app(
        Services(
            settings,
            plan,
            run_dir,
            pipeline,
            (),
            requests,
            [*around, *own],
            partial(operations, features, settings),
            refused,
        ),
        features,
    )


def png(pixels: Array) -> bytes:
    """Encode uint8 [H, W] or [H, W, 3] as PNG."""
    buffer = io.BytesIO()
    Image.fromarray(np.asarray(pixels, np.uint8)).save(buffer, "png")
    return buffer.getvalue()
