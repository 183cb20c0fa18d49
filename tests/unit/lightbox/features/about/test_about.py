"""``GET /about``, and its place in the OpenAPI document."""

from __future__ import annotations

from lightbox.model.options import ModelOptions
from lightbox.transports.fake import FakeTransport
from support.fakes import channel_means, fake_app, mean_model


def test_it_names_the_models_and_is_described() -> None:
    transport = FakeTransport()
    transport.serve(mean_model(), channel_means)
    client = fake_app(transport, {"mean": ModelOptions()}, {"LIGHTBOX_OPENAPI": "true"}).test_client()
    assert client.get("/about").json == {"models": {"mean": []}}
    document = client.get("/openapi.json").json
    assert document is not None
    assert "/about" in document["paths"]
