"""nginx.conf, filled in from the settings."""

from __future__ import annotations

import re
from pathlib import Path

from lightbox.core.additions import NginxParts
from lightbox.nginx.configuration import render
from lightbox.serving.settings_loading import load_settings
from support.parameters import each

NOWHERE = {"SIDECAR": "unix:a", "HEALTH": "unix:b"}


@each(
    ("environ", "sentence"),
    [
        ({}, ["listen 8080 ", "error_log stderr error;"]),
        ({"SAGEMAKER_BIND_TO_PORT": "8501"}, ["listen 8501 "]),  # unopened
        ({"SAGEMAKER_TFS_NGINX_LOGLEVEL": "warn"}, ["error_log stderr warn;"]),
    ],
)
def test_what_a_variable_of_aws_gives_nginx(environ: dict[str, str], sentence: list[str]) -> None:
    conf = render(load_settings(environ), Path("/run"), NOWHERE, 1 << 28)
    assert [part for part in sentence if part not in conf] == []


def test_idle_connections_are_kept(tmp_path: Path) -> None:
    """Most load balancers close idle connections after a minute; nginx keeps them longer."""
    conf = render(load_settings({}), tmp_path, NOWHERE, 1 << 28)
    kept = {int(seconds) for seconds in re.findall(r"^ {4}keepalive_timeout (\d+)s;", conf, re.MULTILINE)}
    assert kept == {75}


def test_a_features_places_are_quoted_and_not_filled_in_themselves(tmp_path: Path) -> None:
    part = NginxParts(http='upstream mine { server "@MINE@"; }', places={"MINE": 'unix:/@HOME@/a "b"'})
    conf = render(load_settings({}), tmp_path, NOWHERE, 1 << 28, parts=[part])
    assert 'upstream mine { server "unix:/@HOME@/a \\"b\\""; }' in conf
