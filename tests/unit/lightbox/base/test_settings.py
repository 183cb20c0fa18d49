from __future__ import annotations

import pytest

from lightbox.base.settings_types import setting_metadata
from lightbox.cli.settings_docs import docstrings
from lightbox.serving.settings_loading import (
    SettingsError,
    load_settings,
    parts,
)
from support.parameters import each


def problems(**environ: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ)
    return caught.value.problems


def test_models_with_names_are_refused_in_multi_model_mode() -> None:
    expected = "LIGHTBOX_MODELS: expected none in multi-model mode, where POST /models names models, got 'a=/m'"
    assert problems(SAGEMAKER_MULTI_MODEL="true", LIGHTBOX_MODELS="a=/m") == [expected]


@each(
    ("given", "port", "variable"),
    [
        ({"PORT": "9000"}, 8080, "SAGEMAKER_BIND_TO_PORT"),  # unopened
        ({"PORT": "http", "K_SERVICE": " "}, 8080, "SAGEMAKER_BIND_TO_PORT"),  # unopened
        ({"PORT": "9000", "K_SERVICE": "photos"}, 9000, "PORT"),  # unopened
        ({"PORT": "9000", "K_SERVICE": "photos", "AIP_HTTP_PORT": "9001"}, 9001, "AIP_HTTP_PORT"),  # unopened
        ({"AIP_HTTP_PORT": "9001", "SAGEMAKER_BIND_TO_PORT": "9002"}, 9002, "SAGEMAKER_BIND_TO_PORT"),  # unopened
    ],
)
def test_what_is_set_by_hand_wins_over_a_platforms_port(given: dict[str, str], port: int, variable: str) -> None:
    settings = load_settings(given)
    assert (settings.port, settings.variable("port")) == (port, variable)


@each(
    ("given", "folder"),
    [
        ({"AIP_STORAGE_URI": "/mnt/model"}, "/mnt/model"),
        ({"AIP_STORAGE_URI": "file:///mnt/a%20model"}, "/mnt/a model"),
        ({"AIP_STORAGE_URI": "file://localhost/mnt/model"}, "/mnt/model"),
        ({"AIP_STORAGE_URI": ""}, "/opt/ml/model"),
        ({"AIP_STORAGE_URI": "gs://bucket/model", "LIGHTBOX_MODEL_DIR": "/m"}, "/m"),
        ({"SAGEMAKER_MULTI_MODEL": "true"}, "/opt/ml/models"),
        ({"SAGEMAKER_MULTI_MODEL": "true", "AIP_STORAGE_URI": "/mnt/models"}, "/mnt/models"),
    ],
)
def test_the_models_folder_as_vertex_ai_names_it(given: dict[str, str], folder: str) -> None:
    assert str(load_settings(given).model_dir) == folder


def test_a_platforms_port_is_named_where_it_is_wrong() -> None:
    assert [line.partition(":")[0] for line in problems(PORT="x", K_SERVICE="y", AIP_HTTP_PORT="0")] == [
        "AIP_HTTP_PORT",
        "PORT",
    ]
    (line,) = problems(LIGHTBOX_KSERVE_GRPC_PORT="8081", AIP_HTTP_PORT="8081")  # unopened
    assert "expected another port than nginx's, AIP_HTTP_PORT=8081" in line


@pytest.mark.parametrize(("cores", "memory", "workers"), [(96, 512, 4), (96, 65536, 64), (2, 512, 2), (4, 64, 1)])
def test_workers_are_as_many_as_cores_and_memory_allow(
    monkeypatch: pytest.MonkeyPatch, cores: int, memory: int, workers: int
) -> None:
    monkeypatch.setattr("lightbox.base.settings.available_cores", lambda: cores)
    assert load_settings({"LIGHTBOX_REQUEST_MEMORY_MB": str(memory)}).workers == workers
    assert load_settings({"LIGHTBOX_REQUEST_MEMORY_MB": "64", "SAGEMAKER_GUNICORN_WORKERS": "5"}).workers == 5


def test_a_port_that_two_settings_have() -> None:
    (line,) = problems(LIGHTBOX_KSERVE_GRPC_PORT="8080")  # unopened
    assert line == (
        "LIGHTBOX_KSERVE_GRPC_PORT: expected another port than nginx's, SAGEMAKER_BIND_TO_PORT=8080, got '8080'"
    )


@pytest.mark.parametrize(("text", "said"), [("{", "the text: "), ("[]", "the text: "), ('{"a": 1}', "a: there is no")])
def test_options_that_are_none(text: str, said: str) -> None:
    (line,) = problems(LIGHTBOX_OPTIONS=text)
    assert line.startswith(f"LIGHTBOX_OPTIONS: {said}")


def test_a_request_timeout_that_is_set_outlasts_nginxs() -> None:
    environ = {"SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS": "60", "SAGEMAKER_GUNICORN_TIMEOUT_SECONDS": "120"}
    assert load_settings(environ).deadline_seconds == 120
    assert load_settings(environ).nginx_read_timeout > 120
    assert load_settings(environ | {"SAGEMAKER_GUNICORN_TIMEOUT_SECONDS": "20"}).nginx_read_timeout == 60


def test_every_setting_is_described() -> None:
    fields = [(part, name, field) for part in parts() for name, field in part.model_fields.items()]
    assert [
        name for part, name, field in fields if not (docstrings(part).get(name) and setting_metadata(field, "theme"))
    ] == []
    assert [name for _, name, field in fields if field.default_factory and not setting_metadata(field, "default")] == []


def test_a_worker_class_that_gunicorn_does_not_have_is_refused() -> None:
    (line,) = problems(SAGEMAKER_GUNICORN_WORKER_CLASS="threads")
    assert all(name in line for name in ("gthread", "gevent", "eventlet", "sync", "tornado", "'threads'"))
