"""Options of sizes that an input cannot follow, each with a sentence."""

from __future__ import annotations

from typing import Any

from lightbox.model.image_options import image_problems
from lightbox.model.options import ModelOptions
from lightbox.model.spec import ImageInput
from support.parameters import each

FIXED, OPEN = (ImageInput("x", False, True, "float32", *sides) for sides in ((64, 96), (None, None)))


@each(
    ("options", "target", "words"),
    [
        ({"fit": "letterbox"}, OPEN, "'letterbox' needs a fixed size, but the input x has none; set image_size"),
        ({"fit": "crop"}, OPEN, "'crop' needs a fixed size"),
        ({"fit": "crop", "resize_shorter": 800, "resize_longer": 1333}, OPEN, None),  # a whole photo
        ({"fit": "crop", "resize_shorter": 99, "resize_longer": 99}, FIXED, "expected none, as the input x is 96x64"),
        ({"fit": "crop", "resize_shorter": 80}, FIXED, "expected at least 96, the longer side of the input x, got 80"),
        ({"fit": "letterbox", "stride": 32}, FIXED, "expected none, as the input x is 96x64"),
    ],
)
def test_sizes_that_do_not_fit(options: dict[str, Any], target: ImageInput, words: str | None) -> None:
    found = [sentence for _, sentence in image_problems(ModelOptions(**options), target)]
    assert [words in one for one in found] == [True] if words else not found
