"""Whether a caller may come in, and whether there is room for the body."""

from __future__ import annotations

import asyncio
from email.parser import Parser

from lightbox.base.errors import PermissionDenied
from lightbox.core.additions import Admitted, IncomingRequest
from lightbox.nginx.admission import admission
from lightbox.nginx.body_memory import BodyAccount


def test_who_may_come_in_is_asked_before_whether_there_is_room() -> None:
    asked: list[IncomingRequest] = []

    async def authenticator(request: IncomingRequest) -> Admitted:
        asked.append(request)
        if request.header("X-API-Key") != "k":
            raise PermissionDenied("not 100 %", "ci")
        return Admitted("ci")

    bodies = BodyAccount(20, 10)

    def room(size: str, key: str) -> tuple[int, str | None, str | None]:
        sent = {"x-api-key": key, "x-lightbox-method": "POST", "x-lightbox-path": "/a"}
        head = asyncio.run(admission(bodies, authenticator, f"/room/7/{size}x/{size}", sent)).decode()
        reply = Parser().parsestr(head.partition("\r\n")[2])
        return int(head.split()[1]), reply["X-Lightbox-Instead"], reply["X-Lightbox-Caller"]

    assert room("", "k") == (204, None, "ci")
    assert room("10", "k") == (204, None, "ci")
    assert room("11", "k") == (403, "", "ci")
    assert room("10", "wrong") == (403, "denied", "ci")
    assert room("9", "k") == (204, None, "ci"), "who was denied holds nothing"
    assert {(request.method, request.path) for request in asked} == {("POST", "/a")}
