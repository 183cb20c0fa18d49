"""Responses to the frames of a stream."""

from __future__ import annotations

from lightbox.features.streams.forwarding import FrameResponse


def test_an_answer_keeps_the_characters_of_json_and_shows_all_else_as_text() -> None:
    def text(content_type: str, body: bytes) -> str:
        return FrameResponse(200, content_type, "decode;dur=1.25, total;dur=2", body).text(7, 3)

    head = '{"frame":7,"status":200,"dropped":3,"timing":{"decode":1.25,"total":2.0},"answer":'
    assert text("application/json; charset=utf-8", b'{"a":1.10}') == head + '{"a":1.10}}'
    assert text("application/json", b'{"a":') == head + '"{\\"a\\":"}'
    assert text("text/csv", b"1,\xff") == head + '"1,\ufffd"}'
