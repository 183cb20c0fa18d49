"""The same pictures as a folder, as shards, as a table and as a list."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path


def write_folder(root: Path, pictures: Mapping[str, bytes]) -> Path:
    """Write files below a folder; names may have slashes."""
    for name, content in pictures.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return root


def write_shard(file: Path, pictures: Mapping[str, bytes]) -> Path:
    """Write a shard in WebDataset's layout: each picture has a class beside it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w") as shard:
        for name, content in pictures.items():
            for member, data in ((name, content), (f"{Path(name).stem}.cls", b"7")):
                info = tarfile.TarInfo(member)
                info.size = len(data)
                shard.addfile(info, io.BytesIO(data))
    return file


def write_table(file: Path, pictures: Mapping[str, bytes], nested: bool = False) -> Path:
    """Write a table with a column of bytes; ``nested`` as Hugging Face's datasets have it."""
    import pyarrow
    import pyarrow.parquet

    values = list(pictures.values())
    images = [{"bytes": value, "path": name} for name, value in pictures.items()] if nested else values
    file.parent.mkdir(parents=True, exist_ok=True)
    table = pyarrow.table({"label": list(range(len(values))), "image": images})
    pyarrow.parquet.write_table(table, file, row_group_size=3)
    return file


def write_list(file: Path, places: list[str], key: str = "source-ref") -> Path:
    """Write an augmented manifest."""
    file.write_text("".join(json.dumps({key: place, "class": 7}) + "\n" for place in places))
    return file
