from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lightbox.base.settings_types import TransportName, parse_image_size, setting_metadata
from lightbox.cli.settings_docs import docstrings
from lightbox.features.open_inference import OpenInferenceSettings
from lightbox.model.options import ModelOptions
from lightbox.serving.settings_loading import (
    REMOVED,
    SettingsError,
    known_variables,
    load_settings,
    parts,
    spelling_hints,
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


def test_every_problem_is_named_at_once() -> None:
    found = problems(
        SAGEMAKER_BIND_TO_PORT="http",
        LIGHTBOX_TRANSPORT="soap",
        LIGHTBOX_OPTIONS='{"image_size": "big", "topk": 3}',
        LIGHTBOX_TRANSPROT="grpc",
        LIGHTBOX_TOP_K="3",
    )
    assert len(found) == 5
    assert any(line.startswith("SAGEMAKER_BIND_TO_PORT: ") and "'http'" in line for line in found)
    assert any(line.startswith("LIGHTBOX_TRANSPORT: ") and "'soap'" in line for line in found)
    assert any(line.startswith("LIGHTBOX_OPTIONS: image_size: ") and "640x480" in line for line in found)
    assert any("; topk: there is no such option; did you mean top_k?" in line for line in found)
    gone = 'LIGHTBOX_TOP_K: this setting is gone; set "top_k" in LIGHTBOX_OPTIONS, such as {"top_k": 3}'
    assert gone in found
    assert any("did you mean LIGHTBOX_TRANSPORT?" in line for line in found)
    assert all("\n" not in line for line in found)


def test_a_wrong_variable_is_named_once_and_so_is_the_one_behind_it() -> None:
    assert len(problems(LIGHTBOX_PAGE="maybe")) == 1
    found = problems(LIGHTBOX_PAGE="maybe", LIGHTBOX_OPENAPI="perhaps", SAGEMAKER_BIND_TO_PORT="http")
    assert sorted(line.partition(":")[0] for line in found) == [
        "LIGHTBOX_OPENAPI",
        "LIGHTBOX_PAGE",
        "SAGEMAKER_BIND_TO_PORT",
    ]


@each(
    ("given", "meant"),
    [
        ("SAGEMAKER_GUNICORN_WORKER", "SAGEMAKER_GUNICORN_WORKERS"),
        ("SAGEMAKER_GUNICORN_LOG_LEVEL", "SAGEMAKER_GUNICORN_LOGLEVEL"),
        ("SAGEMAKER_TFS_MODEL_NAME", "SAGEMAKER_TFS_DEFAULT_MODEL_NAME"),
        ("SAGEMAKER_BIND_PORT", "SAGEMAKER_BIND_TO_PORT"),
        ("SAGEMAKER_TFS_BATCH_SIZE", "SAGEMAKER_TFS_MAX_BATCH_SIZE"),
    ],
)
def test_a_misspelled_name_of_aws_stops_nothing_and_gets_a_hint(given: str, meant: str) -> None:
    load_settings({given: "x"})
    assert spelling_hints({given: "x"}) == [f"{given}: there is no such setting; did you mean {meant}?"]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("LIGHTBOX_TRANSPORTS", "LIGHTBOX_TRANSPORT?"),
        ("LIGHTBOX_TOPK", "LIGHTBOX_TOP_K? It is gone; set"),
        ("LIGHTBOX_IMAGESIZE", "LIGHTBOX_IMAGE_SIZE? It is gone; set"),
    ],
)
def test_a_misspelled_name_of_ours_gets_the_setting_or_what_took_its_place(given: str, meant: str) -> None:
    (line,) = problems(**{given: "1"})
    assert line.startswith(f"{given}: there is no such setting; did you mean {meant}")


def service(name: str, address: str = "10.0.0.1") -> dict[str, str]:
    """The variables that Kubernetes sets for a Service with a named port."""
    host, url = (f"[{address}]" if ":" in address else address), name + "_PORT_80_TCP"
    link = f"tcp://{host}:80"
    return {
        f"{name}_SERVICE_HOST": address,
        f"{name}_SERVICE_PORT": "80",
        f"{name}_SERVICE_PORT_HTTP": "80",
        f"{name}_PORT": link,
        url: link,
        f"{url}_PROTO": "tcp",
        f"{url}_PORT": "80",
        f"{url}_ADDR": address,
    }


@each("name", ["LIGHTBOX", "LIGHTBOX_MODELS", "LIGHTBOX_KSERVE_GRPC", "AIP_HTTP", "SAGEMAKER_BIND_TO"])
@each("address", ["10.0.0.1", "fd00::1"])
def test_a_service_named_like_a_setting_is_none(name: str, address: str) -> None:
    assert load_settings(service(name, address)) == load_settings({})
    assert spelling_hints(service(name, address)) == []


@pytest.mark.parametrize("given", ["LIGHTBOX_PORT", "LIGHTBOX_SERVICE_PORT", "LIGHTBOX_SERVICE_PROT"])
def test_a_misspelled_setting_is_no_service(given: str) -> None:
    found = problems(**service("LIGHTBOX_MODELS") | {given: "80"})
    assert [line.partition(":")[0] for line in found] == [given]


@pytest.mark.parametrize(("cores", "memory", "workers"), [(96, 512, 4), (96, 65536, 64), (2, 512, 2), (4, 64, 1)])
def test_workers_are_as_many_as_cores_and_memory_allow(
    monkeypatch: pytest.MonkeyPatch, cores: int, memory: int, workers: int
) -> None:
    monkeypatch.setattr("lightbox.base.settings.available_cores", lambda: cores)
    assert load_settings({"LIGHTBOX_REQUEST_MEMORY_MB": str(memory)}).workers == workers
    assert load_settings({"LIGHTBOX_REQUEST_MEMORY_MB": "64", "SAGEMAKER_GUNICORN_WORKERS": "5"}).workers == 5


def test_a_removed_setting_may_be_empty() -> None:
    load_settings(dict.fromkeys(REMOVED, ""))


def test_variables_of_the_platform_get_no_hint() -> None:
    names = "SAGEMAKER_PROGRAM SAGEMAKER_SUBMIT_DIRECTORY SAGEMAKER_BATCH_STRATEGY SAGEMAKER_MODEL_SERVER_WORKERS"
    known = (
        "SAGEMAKER_GUNICORN_WORKERS SAGEMAKER_TFS_VERSION SAGEMAKER_REGION SAGEMAKER_MAX_PAYLOAD_IN_MB GUNICORN_WORKER"
    )
    assert spelling_hints(dict.fromkeys(f"{names} {known}".split(), "1")) == []


def test_a_port_that_two_settings_have() -> None:
    (line,) = problems(LIGHTBOX_KSERVE_GRPC_PORT="8080")  # unopened
    assert line == (
        "LIGHTBOX_KSERVE_GRPC_PORT: expected another port than nginx's, SAGEMAKER_BIND_TO_PORT=8080, got '8080'"
    )


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_variable_is_an_unset_one(value: str) -> None:
    assert load_settings({"SAGEMAKER_BIND_TO_PORT": value}).port == 8080


@pytest.mark.parametrize(("text", "size"), [("640", (640, 640)), ("640x480", (640, 480)), (" 10 X 20 ", (10, 20))])
def test_image_size(text: str, size: tuple[int, int]) -> None:
    assert parse_image_size(text) == size


@each("text", ["0", "640x0", "x", "-3", "640x480x3", "123456"])
def test_image_size_refused(text: str) -> None:
    assert problems(LIGHTBOX_OPTIONS=json.dumps({"image_size": text}))


@pytest.mark.parametrize(("text", "said"), [("{", "the text: "), ("[]", "the text: "), ('{"a": 1}', "a: there is no")])
def test_options_that_are_none(text: str, said: str) -> None:
    (line,) = problems(LIGHTBOX_OPTIONS=text)
    assert line.startswith(f"LIGHTBOX_OPTIONS: {said}")


def test_what_is_said_of_removed_settings_can_be_followed() -> None:
    assert len(problems(**dict.fromkeys(REMOVED, "1"))) == len(REMOVED)
    assert not known_variables() & REMOVED.keys()
    for text in REMOVED.values():
        assert set(re.findall(r"LIGHTBOX_\w+", text)) <= known_variables()
        if options := re.search(r"such as (\{.*\})", text):
            assert ModelOptions.model_validate_json(options[1]) != ModelOptions()


@each(
    ("variable", "text", "wires"),
    [
        ("LIGHTBOX_TRANSPORT", "grpc", "grpc"),
        ("LIGHTBOX_TRANSPORT", "REST", "rest"),
        ("LIGHTBOX_TRANSPORT", "grpc,rest", "grpc rest"),
        ("LIGHTBOX_TRANSPORT", " rest , GRPC ", "rest grpc"),
        ("LIGHTBOX_TRANSPORT", "local,grpc,rest", "local grpc rest"),
        ("PREDICT_USING_GRPC", "True", "grpc"),
        ("PREDICT_USING_GRPC", "false", "rest"),
    ],
)
def test_wires(variable: str, text: str, wires: str) -> None:
    assert load_settings({variable: text}).transports == tuple(TransportName(name) for name in wires.split())


@each("text", ["http", "grpc,soap", "grpc,grpc", ",", "grpc rest", "grpc,true"])
def test_wires_refused(text: str) -> None:
    (line,) = problems(LIGHTBOX_TRANSPORT=text)
    expected = (
        "LIGHTBOX_TRANSPORT: expected local, grpc, rest, or several with the default one first, such as grpc,rest, got "
    )
    assert line == expected + repr(text)


@each("text", ["9000", "9100-9000", "0-10", "9000-70000", "a-b"])
def test_port_range_refused(text: str) -> None:
    (line,) = problems(SAGEMAKER_SAFE_PORT_RANGE=text)
    assert line.startswith("SAGEMAKER_SAFE_PORT_RANGE: ")


def test_what_is_right_among_wrong_settings_can_be_used() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"LIGHTBOX_TRANSPORT": "soap", "SAGEMAKER_BIND_TO_PORT": "8181"})  # unopened
    assert caught.value.wrong == {"LIGHTBOX_TRANSPORT"}
    assert (caught.value.usable.port, caught.value.usable.transports) == (8181, None)


def test_settings_that_do_not_go_together_are_left_out_as_well() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"LIGHTBOX_KSERVE_GRPC_PORT": " 8080 "})  # unopened
    assert caught.value.wrong == {"LIGHTBOX_KSERVE_GRPC_PORT"}
    assert caught.value.usable.of(OpenInferenceSettings).kserve_grpc_port is None
    assert caught.value.problems[0].endswith("got ' 8080 '")


def test_a_request_timeout_that_is_set_outlasts_nginxs() -> None:
    environ = {"SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS": "60", "SAGEMAKER_GUNICORN_TIMEOUT_SECONDS": "120"}
    assert load_settings(environ).deadline_seconds == 120
    assert load_settings(environ).nginx_read_timeout > 120
    assert load_settings(environ | {"SAGEMAKER_GUNICORN_TIMEOUT_SECONDS": "20"}).nginx_read_timeout == 60


def test_a_default_model_called_none_is_an_unset_one() -> None:
    assert load_settings({"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "None"}).default_model is None
    assert load_settings({"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "none"}).default_model == "none"


def test_every_setting_is_described() -> None:
    fields = [(part, name, field) for part in parts() for name, field in part.model_fields.items()]
    assert [
        name for part, name, field in fields if not (docstrings(part).get(name) and setting_metadata(field, "theme"))
    ] == []
    assert [name for _, name, field in fields if field.default_factory and not setting_metadata(field, "default")] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cats=/m/cats", {"cats": "/m/cats"}),
        ("a=/m/a,b.2=/m/x=y", {"a": "/m/a", "b.2": "/m/x=y"}),
        ("a=/m/one, two,b=/m/b", {"a": "/m/one, two", "b": "/m/b"}),
    ],
)
def test_models_with_names(text: str, found: dict[str, str]) -> None:
    assert load_settings({"LIGHTBOX_MODELS": text}).models == {name: Path(path) for name, path in found.items()}


@each("text", ["cats", "=/m", "a=", "a=/m,a=/n", "a b=/m"])
def test_models_without_names_or_paths_are_refused(text: str) -> None:
    (line,) = problems(LIGHTBOX_MODELS=text)
    assert line.startswith("LIGHTBOX_MODELS: expected ")


def test_variables_of_sagemaker_that_nothing_reads_change_nothing() -> None:
    unread = ("TFS_VERSION", "MAX_PAYLOAD_IN_MB", "BATCH_STRATEGY", "MAX_CONCURRENT_TRANSFORMS", "PROGRAM", "REGION")
    assert load_settings({f"SAGEMAKER_{name}": "any" for name in unread}) == load_settings({})


def test_both_names_of_the_wire() -> None:
    assert load_settings({"PREDICT_USING_GRPC": "true"}).transports == (TransportName.GRPC,)
    assert load_settings({"PREDICT_USING_GRPC": "False"}).transports == (TransportName.REST,)
    both = {"PREDICT_USING_GRPC": "true", "LIGHTBOX_TRANSPORT": "rest"}
    assert load_settings(both).transports == (TransportName.REST,)


def test_a_worker_class_that_gunicorn_does_not_have_is_refused() -> None:
    (line,) = problems(SAGEMAKER_GUNICORN_WORKER_CLASS="threads")
    assert all(name in line for name in ("gthread", "gevent", "eventlet", "sync", "tornado", "'threads'"))
