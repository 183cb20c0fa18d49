"""Every file of Pillow's test collection gets a 200 or 4xx response, in little time and bounded memory."""

from __future__ import annotations

from collections import Counter
from time import process_time

import pytest

from lightbox.model.options import ModelOptions
from support.fake_transport import FakeTransport
from support.fakes import channel_means, fake_app, mean_model
from support.memory_use import PeakGrowth
from support.pillow_images import pillow_images

pytestmark = pytest.mark.extended


def test_pillows_own_images() -> None:
    transport = FakeTransport()
    transport.serve(mean_model(side=224), channel_means)
    client = fake_app(transport, {"mean": ModelOptions()}).test_client()
    statuses: Counter[int] = Counter()
    for name, body in pillow_images():
        growth, started = PeakGrowth(), process_time()
        status = client.post("/invocations", data=body, headers={"Content-Type": "application/x-image"}).status_code
        assert status == 200 or 400 <= status < 500, name
        assert process_time() - started < 5, name
        assert growth.mb() < 500, name
        statuses[status] += 1
    assert statuses.total() > 1000
    assert statuses[200] > 600, "far fewer are read than were"
