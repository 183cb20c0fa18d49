"""The report of ``lightbox stream`` at the end of a stream."""

from __future__ import annotations

from lightbox.tools.client.stream_command import Report
from support.parameters import each


@each(
    ("milliseconds", "said"),
    [
        ([64.2, 16.2], "p50 40.2 ms, p95 64.2 ms"),
        ([7.0], "p50 7.0 ms, p95 7.0 ms"),
        ([float(number) for number in range(1, 101)], "p50 50.5 ms, p95 95.0 ms"),
        ([], "p50 0.0 ms, p95 0.0 ms"),
    ],
)
def test_19_of_20_answers_came_within_the_second_time(milliseconds: list[float], said: str) -> None:
    report = Report(len(milliseconds), answered=len(milliseconds), milliseconds=milliseconds)
    assert report.line().endswith(said)
