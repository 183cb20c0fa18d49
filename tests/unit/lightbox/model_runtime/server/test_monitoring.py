"""The Prometheus metrics page."""

from __future__ import annotations

from lightbox.model_runtime.server.monitoring import MAX_LABEL_SETS, Counter, Histogram, Metrics


def test_a_histogram_counts_upwards() -> None:
    histogram = Histogram(":a:b", (10.0, 2.0, 3), "x")
    for value in (1, 10, 15, 1000):
        histogram.observe(value, 'q"\\')
    label = r'x="q\"\\"'
    assert list(histogram.lines()) == [
        f':a:b_bucket{{{label},le="10"}} 1',
        f':a:b_bucket{{{label},le="20"}} 3',
        f':a:b_bucket{{{label},le="40"}} 3',
        f':a:b_bucket{{{label},le="+Inf"}} 4',
        f":a:b_sum{{{label}}} 1026",
        f":a:b_count{{{label}}} 4",
    ]


def test_clients_cannot_make_labels_without_end() -> None:
    counter = Counter(":a", "x")
    for number in range(3 * MAX_LABEL_SETS):
        counter.add(1, str(number))
    lines = list(counter.lines())
    assert len(lines) == MAX_LABEL_SETS + 1
    assert f':a{{x="other"}} {2 * MAX_LABEL_SETS}' in lines


def test_every_metric_has_its_type_on_the_page() -> None:
    page = Metrics().page().decode()
    assert page.count("# TYPE ") == len(vars(Metrics()))
    assert page.endswith("\n")
