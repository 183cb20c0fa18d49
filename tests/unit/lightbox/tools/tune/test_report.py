"""The report that ``lightbox tune`` prints at the end."""

from __future__ import annotations

from lightbox.tools.tune.candidates import Candidate, Change
from lightbox.tools.tune.report import Circumstances, progress, text
from lightbox.tools.tune.search import Findings
from lightbox.tools.tune.trials import Goal, Round, Trial

ABOUT = Circumstances("mobilenet_v2", "photo.jpg, 240 kB", 2, "embedded", 8, "the defaults")
INTRA = Change("intra_op_parallelism", (("SAGEMAKER_TFS_INTRA_OP_PARALLELISM", "1"),))
BATCHING = Change("enable_batching", (("SAGEMAKER_TFS_ENABLE_BATCHING", "true"), ("SAGEMAKER_TFS_MAX_BATCH_SIZE", "8")))


def trial(*changes: Change, **gains: float) -> Trial:
    """Return a trial of 6 rounds with these gains over 15 ms and 100/s."""
    rounds = {}
    if "latency" in gains:
        rounds[Goal.LATENCY] = [Round(0.015, 0.015 / gains["latency"])] * 6
    if "throughput" in gains:
        rounds[Goal.THROUGHPUT] = [Round(100, 100 * gains["throughput"])] * 6
    return Trial(Candidate(changes), rounds)


def found() -> Findings:
    screens = [trial(INTRA, latency=1.2, throughput=1.3), trial(BATCHING, latency=0.9, throughput=1.1)]
    together = trial(INTRA, BATCHING, latency=1.1, throughput=1.4)
    best_latency, best_throughput = trial(INTRA, latency=1.25), trial(INTRA, BATCHING, throughput=1.5)
    return Findings(
        possible=9,
        screens=[*screens, together],
        confirmations=[best_latency, best_throughput],
        best={Goal.LATENCY: best_latency, Goal.THROUGHPUT: best_throughput},
        missing_seconds=80.4,
    )


def test_the_report_is_comments_and_environment_lines() -> None:
    assert text(found(), ABOUT, 118.2, 120).splitlines() == [
        "# mobilenet_v2, photo.jpg, 240 kB; 2 cores; model server: embedded",
        "# 2 candidates (7 more left out for lack of time; --seconds 201 is enough for all) and 1 combination tried in "
        "118 s, each in turn with the defaults",
        "",
        "# lowest latency: p50 12.0 ms, 1.25x faster than the defaults (p50 15.0 ms), better in 6 of 6 rounds",
        "# throughput with it, measured briefly: 130.0/s instead of 100.0/s",
        "SAGEMAKER_TFS_INTRA_OP_PARALLELISM=1",
        "",
        "# highest throughput at 8 clients: 150.0/s, 1.50x that of the defaults (100.0/s), better in 6 of 6 rounds",
        "# latency with it, measured briefly: p50 13.6 ms instead of p50 15.0 ms",
        "# alone 1.30x:",
        "SAGEMAKER_TFS_INTRA_OP_PARALLELISM=1",
        "# alone 1.10x:",
        "SAGEMAKER_TFS_ENABLE_BATCHING=true",
        "SAGEMAKER_TFS_MAX_BATCH_SIZE=8",
    ]


def test_where_nothing_helped_the_report_says_so() -> None:
    nothing = Findings(possible=1, screens=[trial(INTRA, latency=1.0, throughput=1.0)])
    lines = text(nothing, ABOUT, 60, 120).splitlines()
    assert lines[1] == "# 1 candidate and 0 combinations tried in 60 s, each in turn with the defaults"
    assert "# lowest latency: no better than the defaults (p50 15.0 ms)" in lines
    assert "# highest throughput at 8 clients: no better than the defaults (100.0/s)" in lines
    assert not [line for line in lines if line and not line.startswith("#")]


def test_where_every_candidate_failed_nothing_is_claimed() -> None:
    failed = trial(INTRA)
    failed.problem = "it was not ready within 9 s"
    report = text(Findings(possible=1, screens=[failed]), ABOUT, 60, 120)
    assert "# lowest latency: not known, as no candidate could be measured" in report.splitlines()


def test_progress_names_the_candidate_and_what_it_gained() -> None:
    line = progress("screen", trial(INTRA, latency=1.2, throughput=1.3), 12.34)
    assert line == "[ 12.3 s] tried SAGEMAKER_TFS_INTRA_OP_PARALLELISM=1: p50 12.5 ms (1.20x), 130.0/s (1.30x)"
    failed = trial(INTRA)
    failed.problem = "a request took more than 5.0 s"
    assert progress("confirm", failed, 1).endswith("=1: a request took more than 5.0 s")
    assert progress("screen", trial(INTRA), 1).endswith("=1: no time was left")
