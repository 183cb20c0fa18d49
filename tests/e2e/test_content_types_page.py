"""docs/content-types.md: its commands are run, and it lists every media type."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from lightbox.codecs import MAYBE_IMAGE_TYPES, Codecs
from lightbox.serving.settings_loading import load_settings
from lightbox.serving.worker import codec_options
from support import commands
from support.fakes import png
from support.stack import REPOSITORY, Stack

PAGE = (REPOSITORY / "docs" / "content-types.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
SETUP, *EXAMPLE_BLOCKS = BLOCKS
EXAMPLES = [pair for block in EXAMPLE_BLOCKS for pair in re.findall(r"^([^#\n].*)\n# (.*)$", block, re.MULTILINE)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    (folder / "red.png").write_bytes(png(np.full((20, 30, 3), (200, 0, 0))))
    (folder / "blue.png").write_bytes(png(np.full((9, 5, 3), (0, 0, 100))))
    np.save(folder / "numbers.npy", np.array([1, 2.5]))
    return folder


@pytest.mark.parametrize(("line", "comment"), EXAMPLES)
def test_a_line_answers_what_its_comment_says(golden_stack: Stack, files: Path, line: str, comment: str) -> None:
    script = SETUP.replace("http://localhost:8080", golden_stack.url) + line
    printed = commands.output(["bash", "-c", script], cwd=files)
    assert printed.strip().startswith(comment.strip())


def test_every_line_says_what_comes_back() -> None:
    assert len(EXAMPLES) == sum(block.count("curl ") for block in EXAMPLE_BLOCKS)


def test_the_page_names_every_media_type() -> None:
    all_ = Codecs(codec_options(load_settings({})))
    shown = (name for codec in all_.readers for name in codec.media_types)
    for media_type in (*shown, *MAYBE_IMAGE_TYPES, *all_.writers):
        assert f"`{media_type}`" in PAGE
