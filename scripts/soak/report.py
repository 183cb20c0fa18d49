"""What a run is told as: a few tables of text that are Markdown too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from benchmark.resources import Sizes
from lightbox.harness.tables import padded_table
from soak.run import Result

COUNTS = (
    ("requests", "sent, good and hostile"),
    ("left by their own client", "hostile clients that hung up, dripped or were cut short; no answer is due"),
    ("not connected", "nobody took the connection; not accepted"),
    ("gRPC front away", "a gRPC call that came while the front was started again: UNAVAILABLE; not accepted"),
    ("not sent", "the connection ended before the request was sent over it; not accepted"),
    ("accepted", "the whole request was sent over a connection that nginx had taken"),
    ("200", "answered in full; good ones compared with the answer of a server at rest"),
    ("4xx", "hostile ones refused in full, as they should be"),
    ("503", "answered 'try again', with Retry-After"),
    ("504", "given up at the deadline"),
    (
        "cut by nginx's death",
        "no answer: the connection was in an nginx process, or a stream in its worker, that was killed then",
    ),
    ("cut by gRPC front's death", "no answer: the call was in the gRPC front when that was killed"),
    ("sent again", "good ones without an answer, sent once more at once"),
    ("answered then", "of these, answered with 200"),
    ("lost", "accepted, and neither answered nor cut by such a death; or answered wrongly"),
)


def text(result: Result, seconds: float) -> str:
    """Return the report of a run that was to take so many seconds."""
    ledger = result.ledger
    lines = [f"{result.name}: {seconds:g} s, {len(ledger.kills)} kills", ""]
    lines += padded_table(("", "number", ""), [(name, f"{ledger.counts[name]:,}", what) for name, what in COUNTS])
    kinds = dict.fromkeys([*result.kinds, *(kill.kind for kill in ledger.kills)])
    recoveries = [(kind, [kill.back_after for kill in ledger.kills if kill.kind == kind]) for kind in kinds]
    if kinds:
        lines += ["", *padded_table(("killed", "times", "median recovery", "worst"), map(_recovery, recoveries))]
    lines += ["", *padded_table(("memory (PSS), MB", "start", "highest", "end"), _memory(result.memory))]
    lines += ["", *(f"LOST: {line}" for line in ledger.lost[:50]), *(f"FAILED: {line}" for line in result.failures)]
    return "\n".join(lines).rstrip()


def _recovery(entry: tuple[str, Sequence[float | None]]) -> tuple[str, ...]:
    kind, found = entry
    known = [seconds for seconds in found if seconds is not None]
    if not known:
        return kind, str(len(found)), "", ""
    return kind, str(len(found)), f"{median(known):.1f} s", f"{max(known):.1f} s"


def _memory(noted: Sequence[Sizes]) -> Iterable[tuple[str, ...]]:
    """Yield the rows of the roles, each with its own highest, and of all together."""
    for role in noted[0]:
        yield role, *_megabytes([sizes.get(role, 0) for sizes in noted])
    yield "all together", *_megabytes([sum(sizes.values()) for sizes in noted])


def _megabytes(sizes: Sequence[int]) -> Iterable[str]:
    return (f"{size / 1e6:.0f}" for size in (sizes[0], max(sizes), sizes[-1]))
