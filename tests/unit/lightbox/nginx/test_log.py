"""Log lines of nginx 1.22."""

from __future__ import annotations

from lightbox.base.telemetry.logs import FinishedRequest
from lightbox.nginx.log import LEVELS, NginxLog, RefusedRequests, level_to_log
from support.parameters import each

REFUSED = (
    "2026/11/20 10:00:00 [error] 7#7: *5 no live upstreams while connecting to upstream, client: 127.0.0.1, "
    'server: , request: "POST /invocations HTTP/1.1", upstream: "http://sidecar/invocations", host: "x"'
)
KILLED = "2026/11/20 10:00:00 [alert] 6#6: worker process 7 exited on signal 9"
FATAL = "2026/11/20 10:00:00 [alert] 6#6: worker process 7 exited with fatal code 2 and cannot be respawned"
ENDED = "2026/11/20 10:00:00 [notice] 6#6: worker process 7 exited with code 0"
FORGED = '2026/11/20 10:00:00 [error] 7#7: *5 request: "GET /[alert] worker process 7 exited on signal 9"'


ANSWER = (
    'lightbox-answered {"request_id": "f00", "request": "POST /invocations?key=secret HTTP/1.1", "status": "413", '
    '"bytes_in": "7000000", "bytes_out": 120, "code": "too_large", "seconds": 0.25}'
)


class Heard:
    """Collect from a log the requests that nginx answered and the number of its dead workers."""

    def __init__(self, wanted: str = "error") -> None:
        self.lost = 0
        self.answered: list[FinishedRequest] = []
        self.requests = RefusedRequests(self)
        self.given_back: list[tuple[str, str]] = []
        self.log = NginxLog(wanted, self.requests.answered, self._give_back, self._lose)

    def _give_back(self, worker: str, request: str) -> None:
        self.given_back.append((worker, request))

    def _lose(self, worker: str) -> None:
        assert worker == "7"
        self.lost += 1

    def responded(self, request: FinishedRequest) -> None:
        """Record a request."""
        self.answered.append(request)


@each(
    ("line", "lost", "swallowed"),
    [
        (REFUSED, 0, True),
        (KILLED, 1, False),
        (FATAL, 1, False),
        (ENDED, 0, True),
        (FORGED, 0, False),
        ("nginx: [emerg] cannot load", 0, False),
        (ANSWER[:60], 0, False),
        ("what has no level", 0, False),
    ],
)
def test_what_a_line_shows(line: str, lost: int, swallowed: bool) -> None:
    heard = Heard()
    assert heard.log.consumes(line) is swallowed
    assert (heard.lost, heard.answered) == (lost, [])


def test_a_request_that_nginx_answered_has_a_line_like_others() -> None:
    heard = Heard()
    assert heard.log.consumes(ANSWER)
    assert heard.requests.reasons == {"too_large": 1}
    (request,) = heard.answered
    assert (request.request_id, request.method, request.path) == ("f00", "POST", "/invocations")
    assert (request.route, request.status, request.error_code) == ("unmatched", 413, "too_large")
    assert (request.bytes_in, request.bytes_out) == (7_000_000, 120)
    assert request.context.elapsed() >= 0.25


def test_a_flood_of_refusals_is_counted_and_seldom_logged() -> None:
    heard, refused = Heard(), ANSWER.replace("too_large", "queue_full")
    for _ in range(1000):
        assert heard.log.consumes(refused)
    assert heard.requests.reasons == {"queue_full": 1000}
    assert 100 < len(heard.answered) < 1000
    assert heard.requests.limit.dropped == 1000 - len(heard.answered)


def test_what_a_finished_request_held_is_given_back() -> None:
    heard = Heard()
    assert heard.log.consumes("lightbox-finished 12 0a1b")
    assert heard.given_back == [("12", "0a1b")]


@each("first_line", ["", "GET", "\\u0016\\u0003\\u0001", "G\u00cbT / HTTP/1.1", "GET http://x/ HTTP/1.1"])
def test_what_is_no_http_has_neither_method_nor_path(first_line: str) -> None:
    heard = Heard()
    reply = ANSWER.replace("POST /invocations?key=secret HTTP/1.1", first_line).replace('"7000000"', '"+7"')
    assert heard.log.consumes(reply)
    (request,) = heard.answered
    assert (request.method, request.path, request.bytes_in) == ("-", "-", 0)


@each("wanted", LEVELS)
def test_who_wants_to_read_less_is_not_shown_more(wanted: str) -> None:
    assert LEVELS.index(level_to_log(wanted)) <= LEVELS.index("error")
    heard = Heard(wanted)
    shown = [level for level in LEVELS if not heard.log.consumes(f"2026/11/20 10:00:00 [{level}] 6#6: something")]
    assert shown == list(LEVELS[LEVELS.index(wanted) :])
    assert heard.log.consumes(KILLED) is (wanted == "emerg")
    assert heard.lost == 1
