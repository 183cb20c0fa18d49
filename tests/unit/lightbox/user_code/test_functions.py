"""How the API of a module is detected from its source text."""

from __future__ import annotations

from lightbox.user_code.api_detection import looks_like_aws
from support.parameters import each


@each(
    "source",
    [
        "def handler(data, context): ...",
        "def input_handler(data, context): ...\ndef output_handler(response, context): ...",
        "from helpers import handler",
        "from helpers import answer as handler",
        "from helpers import *",
        "import helpers\nhandler = helpers.make()",
        "try:\n    import fast\nexcept ImportError:\n    def handler(data, context): ...",
        "def preprocess(x): ...\ndef handler(data, context): return preprocess(data)",
    ],
)
def test_aws_handlers(source: str) -> None:
    assert looks_like_aws(source.encode())


@each(
    "source",
    [
        "def preprocess(request): ...",
        "from helpers import *\ndef preprocess(request): ...",
        "import logging\ndef postprocess(outputs, request):\n    handler = logging.StreamHandler()",
        "def handler(x): ...\ndef preprocess(request): return handler(request)",
        "def handler(data, context): ...\ndef preprocess(request): ...",
        "def handler(:",
        "handler\0",
        "",
    ],
)
def test_none(source: str) -> None:
    assert not looks_like_aws(source.encode())
