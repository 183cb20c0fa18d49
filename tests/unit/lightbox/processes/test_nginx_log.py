"""Lines as nginx 1.22 writes them."""

from __future__ import annotations

import pytest

from lightbox.processes.nginx_log import LEVELS, NginxLog, level_to_log

REFUSED = (
    "2026/11/20 10:00:00 [error] 7#7: *5 no live upstreams while connecting to upstream, client: 127.0.0.1, "
    'server: , request: "POST /invocations HTTP/1.1", upstream: "http://sidecar/invocations", host: "x"'
)
KILLED = "2026/11/20 10:00:00 [alert] 6#6: worker process 7 exited on signal 9"
FATAL = "2026/11/20 10:00:00 [alert] 6#6: worker process 7 exited with fatal code 2 and cannot be respawned"
ENDED = "2026/11/20 10:00:00 [notice] 6#6: worker process 7 exited with code 0"
FORGED = '2026/11/20 10:00:00 [error] 7#7: *5 request: "GET /[alert] worker process 7 exited on signal 9"'


@pytest.mark.parametrize(
    ("line", "told", "swallowed"),
    [
        (REFUSED, "refused", True),
        (KILLED, "lost", False),
        (FATAL, "lost", False),
        (ENDED, "", True),
        (FORGED, "", False),
        ("nginx: [emerg] cannot load", "", False),
        ("what has no level", "", False),
    ],
)
def test_what_a_line_tells(line: str, told: str, swallowed: bool) -> None:
    heard: list[str] = []
    log = NginxLog("error", lambda: heard.append("refused"), lambda: heard.append("lost"))
    assert log.swallows(line) is swallowed
    assert "".join(heard) == told


@pytest.mark.parametrize("wanted", LEVELS)
def test_who_wants_to_read_less_is_not_shown_more(wanted: str) -> None:
    assert LEVELS.index(level_to_log(wanted)) <= LEVELS.index("error")
    heard: list[str] = []
    log = NginxLog(wanted, lambda: heard.append("refused"), lambda: heard.append("lost"))
    shown = [level for level in LEVELS if not log.swallows(f"2026/11/20 10:00:00 [{level}] 6#6: something")]
    assert shown == list(LEVELS[LEVELS.index(wanted) :])
    assert log.swallows(KILLED) is (wanted == "emerg")
    assert heard == ["lost"]
