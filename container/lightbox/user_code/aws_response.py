"""The model's response in the form for ``output_handler``."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import requests


def rest_response(body: bytes, url: str) -> requests.Response:
    """Return the response that a POST to the model server would have given, status 200."""
    import requests  # only AWS handlers need it

    response = requests.Response()
    response.status_code = 200
    response.url = url
    response.encoding = "utf-8"
    response.headers["Content-Type"] = "application/json"
    response.headers["Content-Length"] = str(len(body))
    response.raw = BytesIO(body)
    return response
