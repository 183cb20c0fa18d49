from __future__ import annotations

from lightbox.features.sagemaker.routes import execution_parameters
from lightbox.model.options import ModelOptions
from lightbox.serving.settings_loading import load_settings
from support.fake_transport import FakeTransport
from support.fakes import fake_app
from support.parameters import each


@each(
    ("workers", "threads", "body_mb", "concurrency", "payload"),
    [
        ("2", "8", "100", 16, 6),
        ("64", "8", "100", 16, 6),
        ("1", "1", "100", 1, 100),
        ("2", "2", "100", 4, 25),
        ("2", "2", "10", 4, 10),
        ("64", "8", "1", 100, 1),
        ("1", "1", "2048", 1, 100),
    ],
)
def test_what_is_sent_at_once_is_within_sagemakers_limit(
    workers: str, threads: str, body_mb: str, concurrency: int, payload: int
) -> None:
    settings = load_settings(
        {
            "SAGEMAKER_GUNICORN_WORKERS": workers,
            "SAGEMAKER_GUNICORN_THREADS": threads,
            "LIGHTBOX_MAX_BODY_MB": body_mb,
        }
    )
    assert concurrency * payload <= 100
    assert execution_parameters(settings) == {
        "MaxConcurrentTransforms": concurrency,
        "BatchStrategy": "MULTI_RECORD",
        "MaxPayloadInMB": payload,
    }


def test_only_get_is_answered() -> None:
    client = fake_app(FakeTransport(), {"m": ModelOptions()}).test_client()
    assert client.get("/execution-parameters").mimetype == "application/json"
    assert client.post("/execution-parameters").status_code == 405


def test_batch_transform_has_time_and_a_queue_without_limit() -> None:
    usual, batch = load_settings({}), load_settings({"SAGEMAKER_BATCH": "true"})
    assert (usual.request_timeout, batch.request_timeout) == (30, 600)
    assert usual.max_enqueued_batches < batch.max_enqueued_batches == 100_000_000
    chosen = {
        "SAGEMAKER_BATCH": "true",
        "SAGEMAKER_GUNICORN_TIMEOUT_SECONDS": "20",
        "SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES": "7",
    }
    assert load_settings(chosen).request_timeout == 20
    assert load_settings(chosen).max_enqueued_batches == 7
    assert load_settings({"SAGEMAKER_BATCH": "false"}).request_timeout == 30
