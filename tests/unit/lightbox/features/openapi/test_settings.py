from __future__ import annotations

from lightbox.features.openapi import OpenApi
from lightbox.serving.settings_loading import load_settings
from support.parameters import each


@each(
    ("environ", "enabled"),
    [
        ({}, False),
        ({"LIGHTBOX_PAGE": "true"}, True),
        ({"LIGHTBOX_PAGE": "true", "LIGHTBOX_OPENAPI": "false"}, False),
        ({"LIGHTBOX_OPENAPI": "true"}, True),
    ],
)
def test_openapi_follows_the_page_unless_it_is_set(environ: dict[str, str], enabled: bool) -> None:
    assert OpenApi().enabled(load_settings(environ)) is enabled
