import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightbox.tools.model_zoo import mobilenet_v2
from lightbox.tools.model_zoo.weights import download, unreachable
from support.http_server import QuietHandler, serving

pytestmark = pytest.mark.extended


class Handler(QuietHandler):
    """Serve one file; return 404 for other paths."""

    def do_HEAD(self) -> None:
        self.reply(b"")

    def do_GET(self) -> None:
        self.reply(b"weights")

    def reply(self, body: bytes) -> None:
        self.send_response(200 if self.path == "/weights.h5" else 404)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[str]:
    with serving(Handler) as url:
        yield url


def test_what_a_server_offers_is_reachable_and_can_be_downloaded(server: str, tmp_path: Path) -> None:
    assert unreachable(f"{server}/weights.h5") is None
    assert download(f"{server}/weights.h5", tmp_path / "weights.h5") is None
    assert (tmp_path / "weights.h5").read_bytes() == b"weights"


def test_what_a_server_lacks_is_named_by_its_status(server: str, tmp_path: Path) -> None:
    assert unreachable(f"{server}/other.h5") == "HTTP 404"
    assert download(f"{server}/other.h5", tmp_path / "other.h5") == "HTTP 404"


def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        problem = unreachable(f"http://127.0.0.1:{silent.getsockname()[1]}/", seconds=0.2)
    assert problem in {"no answer within 0.2 s", "timed out"}


@pytest.mark.extended
def test_seeded_weights_do_not_depend_on_what_the_process_drew_before(seeded_mobilenet_v2: Any) -> None:
    import keras

    keras.utils.set_random_seed(random.randrange(2**31))
    again = mobilenet_v2.seeded_model().get_weights()
    for one, other in zip(seeded_mobilenet_v2.get_weights(), again, strict=True):
        np.testing.assert_array_equal(one, other)
