"""Pages of a Parquet file whose headers are damaged, or promise far more than they are read from."""

from __future__ import annotations

import io

import pyarrow
import pyarrow.parquet
import pytest

from lightbox.tools.offline.parquet_pages import BadPage, check_pages


def check(cells: list[bytes], spoil: int = 0) -> None:
    """Check the pages of a table, after ``spoil`` bytes of its first page have become ones that no header has."""
    file = io.BytesIO()
    table, pages = pyarrow.table({"image": cells}), {"data_page_size": 1 << 30}
    pyarrow.parquet.write_table(table, file, compression="zstd", use_dictionary=False, **pages)
    column = pyarrow.parquet.ParquetFile(file).metadata.row_group(0).column(0)
    file.seek(column.data_page_offset)
    file.write(b"\xff" * spoil)
    check_pages(file, column)


def test_pages_that_may_be_read() -> None:
    check([b"a", bytes(1 << 20)])


def test_a_page_that_inflates_to_gigabytes() -> None:
    with pytest.raises(BadPage, match=r"a page of [\d,]+ bytes inflates to [\d,]+, more than 100 times its size"):
        check([bytes(4 << 20)] * 20)


@pytest.mark.parametrize("spoil", [1, 8, 64])
def test_a_damaged_header(spoil: int) -> None:
    with pytest.raises(BadPage):
        check([b"a" * 100], spoil)
