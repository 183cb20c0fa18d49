"""Models in the actors of Ray Data, and a cluster of Ray that answers for ``lightbox predict``.

    images = lightbox.ray.paths("s3://bucket/photos")
    images.map_batches(lightbox.ray.Predict, fn_constructor_kwargs={"model": lightbox.ray.ship("models/cats")})

Retries are Ray's: the batches of a lost node are answered by others.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import cache
from io import BytesIO
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pyarrow
import ray
from pyarrow import fs
from ray.exceptions import RayError, RayTaskError

from lightbox.base.errors import StartError
from lightbox.base.machine.shared_files import held
from lightbox.base.request_context import RequestContext
from lightbox.model_files.archives import unpack
from lightbox.model_runtime.engines.disk_cache import private_folder
from lightbox.tools.client.image_files import PICTURE_ENDINGS
from lightbox.tools.offline.endpoint import EndpointGone
from lightbox.tools.offline.loading import load
from lightbox.tools.offline.model import Model
from lightbox.tools.offline.rows import Row, in_order, rows
from lightbox.tools.offline.sources import Item, read
from lightbox.tools.offline.targets import arrow_table

BATCH, READERS = 64, 8
"""Images of a task, and the threads that read them ahead."""
MOST_BLOCKS = 10_000
"""Blocks of paths in a pipeline; of fewer images one is a batch."""
BATCHES_EACH, MOST_RETRIES = 2, 10
"""Tasks at a time for each CPU, and how often one begins again after its process has ended."""


class Predict:
    """Answers batches in an actor, which has one model and as many threads as Ray has given it CPUs, at least one.

    ``model`` is what ``ship`` returns, a path that each node has, or ``s3://bucket/cats``; ``options`` are those of
    ``lightbox.load``. A node gets a model's files once, however many actors it has. Raises StartError.
    """

    def __init__(self, model: str | ray.ObjectRef[Any], **options: Any) -> None:
        threads = max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))
        self._model: Model = load(_on_this_node(model), threads=threads, **options)

    def __call__(self, batch: Mapping[str, Any]) -> pyarrow.Table:
        """Return the rows of a batch, in its order, as ``targets.arrow_table`` does.

        ``batch`` has the column ``path``: files that are read here. The columns ``bytes`` (files, as
        ``read_binary_files`` has them) or ``image`` (pixels as ``read_images`` has them) hold what is read already.
        Raises ValueError for other columns.
        """
        if "path" not in batch:
            raise ValueError(f"expected the column path (include_paths=True), got {', '.join(batch)}")
        images = batch.get("bytes", batch.get("image"))
        if images is not None:
            return arrow_table(rows(self._model, zip(batch["path"], images, strict=True)))
        return arrow_table(rows(self._model, in_order(_read, map(str, batch["path"]), READERS)))


def paths(source: str) -> ray.data.Dataset:
    """Return the paths of the images below a folder that all nodes have, or ``s3://bucket/prefix``, for ``Predict``.

    Only paths go through the object store: images are read where they are predicted. Raises OSError.
    """
    files, root = fs.FileSystem.from_uri(source if "://" in source else str(Path(source).absolute()))
    scheme = f"{source.partition('://')[0]}://" if "://" in source else ""
    found = (info.path for info in files.get_file_info(fs.FileSelector(root, recursive=True)) if info.is_file)
    names = sorted(f"{scheme}{path}" for path in found if path.lower().endswith(PICTURE_ENDINGS))
    blocks = min(MOST_BLOCKS, max(1, len(names) // BATCH))
    return ray.data.from_items([{"path": name} for name in names], override_num_blocks=blocks)


def _read(path: str) -> tuple[str, bytes | Exception]:
    """Return path and content of a file, or the exception of reading it."""
    try:
        if "://" not in path:
            return path, Path(path).read_bytes()
        files, place = fs.FileSystem.from_uri(path)
        with files.open_input_stream(place) as file:
            return path, bytes(file.read())
    except (OSError, ValueError) as error:
        return path, error


def ship(model: str | os.PathLike[str]) -> ray.ObjectRef[Any]:
    """Put a model's folder or file into the cluster's object store, from where each node fetches it once.

    The model has to fit into the object store of each node. Raises OSError.
    """
    path = Path(model).absolute()
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=0, dereference=True) as archive:
        archive.add(path, path.name)
    content = packed.getvalue()
    return ray.put((path.name, hashlib.sha256(content).hexdigest(), content))


class Cluster:
    """Answers the images of a source on a cluster of Ray, which reads them too; ``address`` as ``ray.init`` has it.

    Each task answers a batch on one CPU, by the model that its process has loaded once. The tasks of a lost node run
    again elsewhere. Raises StartError where there is no cluster, or where the model cannot be loaded.
    """

    reads = True

    def __init__(self, address: str, model: str, options: Mapping[str, Any]) -> None:
        try:
            ray.init(address, log_to_driver=False)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            raise StartError(f"--ray {address}: expected the address of a cluster: {error}") from error
        self._given = (ship(model), json.dumps(options))
        try:
            self.name, self.version, self.engine = ray.get(ray.remote(_about).remote(self._given))
        except RayError as error:
            if isinstance(error, RayTaskError) and isinstance(error.cause, StartError):
                raise error.cause from None
            raise StartError(f"--ray {address}: expected this release of Lightbox on each node: {error}") from error

    def responses(self, images: Iterable[Item]) -> Iterator[tuple[str, Row]]:
        """Yield path and row of each item of a source, in the order of the responses.

        Raises SourceError where S3 refuses all, and EndpointGone where the cluster gives a batch up.
        """
        predict = ray.remote(_predictions).options(max_retries=MOST_RETRIES)
        finished: SimpleQueue[Future[list[Row]]] = SimpleQueue()
        running, left = 0, iter(images)
        while True:
            while running < BATCHES_EACH * ray.cluster_resources().get("CPU", 1):
                if not (batch := list(islice(left, BATCH))):
                    break
                predict.remote(self._given, batch).future().add_done_callback(finished.put)
                running += 1
            if not running:
                return
            try:
                rows = finished.get().result()
            except RayTaskError as error:
                raise error.cause from None
            except RayError as error:
                raise EndpointGone(f"the cluster has given up: {error}") from error
            running -= 1
            yield from ((row.path, row) for row in rows)


def _about(given: tuple[ray.ObjectRef[Any], str]) -> tuple[str, int, str]:
    model = _loaded(*given)
    return model.name, model.version, model.engine


def _predictions(given: tuple[ray.ObjectRef[Any], str], batch: list[Item]) -> list[Row]:
    return list(rows(_loaded(*given), in_order(read, batch, READERS)))


@cache
def _loaded(model: ray.ObjectRef[Any], options: str) -> Model:
    return load(_on_this_node(model), threads=1, **json.loads(options))


def _on_this_node(model: str | ray.ObjectRef[Any]) -> Path:
    """Return the path of a model's files on this node, fetched if no other actor has done so."""
    if isinstance(model, ray.ObjectRef):
        name, digest, content = ray.get(model)

        def unpacked(folder: Path) -> None:
            archive = folder.with_suffix(".tar.gz")
            archive.write_bytes(content)
            unpack(archive, folder, f"the model {name}", RequestContext(math.inf))

        return _once(digest, unpacked) / str(name)
    if "://" not in model:
        return Path(model)
    try:
        source, root = fs.FileSystem.from_uri(model.rstrip("/"))
        found = source.get_file_info(fs.FileSelector(root, recursive=True))
    except (OSError, ValueError) as error:
        raise StartError(f"{model}: expected a folder with a model: {error}") from error
    name = model.rstrip("/").rpartition("/")[2]
    digest = hashlib.sha256(repr(sorted((info.path, info.size, info.mtime_ns) for info in found)).encode()).hexdigest()
    return _once(digest, lambda folder: fs.copy_files(root, str(folder / name), source_filesystem=source)) / name


def _once(digest: str, fetch: Callable[[Path], None]) -> Path:
    """Return the folder of this node for what has a digest; the first process that asks fetches, the others wait."""
    kept = private_folder(Path(tempfile.gettempdir(), f"lightbox-models-{os.geteuid()}"))
    folder = kept / digest
    with held(kept / f"{digest}.lock"):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=kept) as partial:
                fetch(Path(partial, digest))
                Path(partial, digest).rename(folder)
    return folder
