"""The environment becomes settings: all problems at once, hints for misspelled names."""

from __future__ import annotations

import pytest

from lightbox.features.open_inference import OpenInferenceSettings
from lightbox.serving.settings_loading import (
    SettingsError,
    load_settings,
    spelling_hints,
)
from support.parameters import each
from unit.lightbox.base.test_settings import problems


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
    gone = "LIGHTBOX_TOP_K: there is no such setting; did you mean LIGHTBOX_OPTIONS?"
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
        ("LIGHTBOX_PORT", "SAGEMAKER_BIND_TO_PORT?"),
        ("LIGHTBOX_WORKERS", "SAGEMAKER_GUNICORN_WORKERS?"),
        ("LIGHTBOX_LOG_LEVEL", "SAGEMAKER_GUNICORN_LOGLEVEL?"),
        ("LIGHTBOX_MODEL", "LIGHTBOX_MODEL_DIR?"),
        ("LIGHTBOX_TOP_K", "LIGHTBOX_OPTIONS?"),
    ],
)
def test_a_misspelled_name_of_ours_gets_the_setting_that_it_means(given: str, meant: str) -> None:
    (line,) = problems(**{given: "1"})
    assert line.startswith(f"{given}: there is no such setting; did you mean {meant}")


@each(
    ("given", "expected"),
    [
        ({"LIGHTBOX_HOST": "localhost"}, "expected an IP address of this machine, such as 127.0.0.1"),
        ({"LIGHTBOX_HOST": "0.0.0.0", "LIGHTBOX_NGINX": "false"}, "expected 127.0.0.1 without nginx"),
    ],
)
def test_a_host_is_an_address_that_nginx_protects(given: dict[str, str], expected: str) -> None:
    (line,) = problems(**given)
    assert line.startswith(f"LIGHTBOX_HOST: {expected}")
    assert load_settings({"LIGHTBOX_HOST": "::1", "LIGHTBOX_NGINX": "false"}).host == "::1"


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


def test_variables_of_the_platform_get_no_hint() -> None:
    names = "SAGEMAKER_PROGRAM SAGEMAKER_SUBMIT_DIRECTORY SAGEMAKER_BATCH_STRATEGY SAGEMAKER_MODEL_SERVER_WORKERS"
    known = (
        "SAGEMAKER_GUNICORN_WORKERS SAGEMAKER_TFS_VERSION SAGEMAKER_REGION SAGEMAKER_MAX_PAYLOAD_IN_MB GUNICORN_WORKER"
    )
    assert spelling_hints(dict.fromkeys(f"{names} {known}".split(), "1")) == []


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_variable_is_an_unset_one(value: str) -> None:
    assert load_settings({"SAGEMAKER_BIND_TO_PORT": value}).port == 8080


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


def test_variables_of_sagemaker_that_nothing_reads_change_nothing() -> None:
    unread = ("TFS_VERSION", "MAX_PAYLOAD_IN_MB", "BATCH_STRATEGY", "MAX_CONCURRENT_TRANSFORMS", "PROGRAM", "REGION")
    assert load_settings({f"SAGEMAKER_{name}": "any" for name in unread}) == load_settings({})
