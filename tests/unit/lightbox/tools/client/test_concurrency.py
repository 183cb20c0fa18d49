"""lightbox.tools.client.concurrency: the number of images sent at once."""

from __future__ import annotations

from lightbox.tools.client.concurrency import FIRST, MOST, ROUNDS_BETWEEN_SEARCHES, Auto
from support.parameters import each


def settled(best: int, most_images: int = 5000) -> Auto:
    """Run the search against an endpoint that processes ``best`` images at once, one second each."""
    auto, now = Auto(), 0.0
    for _ in range(most_images):
        now += 1 / min(auto.limit, best)
        auto.answered(now, 0)
    return auto


@each("best", [1, 2, 4, 8, 16, 32, 64, 1000])
def test_the_search_ends_where_more_is_no_faster(best: int) -> None:
    # The search begins with eight and sometimes tries one step beyond the best.
    assert settled(best).limit in {min(MOST, max(FIRST, best)), min(MOST, max(FIRST, best) * 2)}
    assert settled(best, 800).limit == min(MOST, max(FIRST, best))


def test_a_refusal_halves_the_number() -> None:
    auto = settled(16, 800)
    auto.answered(10_000.0, 1)
    assert auto.limit == 8
    for _ in range(10):
        auto.answered(10_000.0, 1)
    assert auto.limit == 1


def test_it_looks_again_for_a_larger_number() -> None:
    auto = settled(8, 800)
    now, seen = 10_000.0, set()
    for _ in range(24 * 3 * ROUNDS_BETWEEN_SEARCHES):
        now += 1 / min(auto.limit, 32)
        auto.answered(now, 0)
        seen.add(auto.limit)
    assert 32 in seen
