"""Write the image corpus: valid/ and invalid/, beside each file NAME its expectation NAME.json.

    python tests/corpus/make_corpus.py

The files are committed, so that a new release of an encoder changes nothing by itself. What must come out of
them is computed by picture.py and the valid_*.py modules from what was put in.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

HERE = Path(__file__).parent

if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))

from corpus import invalid, valid_jpeg, valid_other, valid_png, valid_tiff, valid_tiff_deep  # noqa: E402
from corpus.picture import Case  # noqa: E402


def valid_cases() -> Iterator[Case]:
    for module in (valid_jpeg, valid_other, valid_png, valid_tiff, valid_tiff_deep):
        yield from module.cases()


def write(folder: Path, cases: Iterable[Case]) -> int:
    """Write the cases into an empty folder; gives their number. Two of one name are an error."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    written = list(cases)
    for case in written:
        with (folder / case.name).open("xb") as file:
            file.write(case.body)
        (folder / f"{case.name}.json").write_text(json.dumps(case.expect, indent=1) + "\n")
    return len(written)


def main() -> None:
    print(f"valid: {write(HERE / 'valid', valid_cases())}, invalid: {write(HERE / 'invalid', invalid.cases())}")


if __name__ == "__main__":
    main()
