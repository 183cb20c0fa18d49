"""TargetModel, as boto3 names it: a folder or an archive of the models directory, loaded on first use."""

from __future__ import annotations

import hashlib
import re
import shutil
import tarfile
from contextlib import suppress
from pathlib import Path

from lightbox.errors import AlreadyLoaded, BadRequest, ModelNotFound
from lightbox.multi_model.loader import ModelLoader
from lightbox.multi_model.places import Source
from lightbox.multi_model.state import LoadedModels
from lightbox.telemetry.clock import RequestClock

ARCHIVE_ENDINGS = (".tar.gz", ".tgz")
UNPACKED = ".unpacked"


class Targets:
    """Makes sure that a target is loaded before it is invoked, as SageMaker does in front of the container."""

    def __init__(self, root: Path, run_dir: Path, loader: ModelLoader, state: LoadedModels) -> None:
        self._root = root
        self._run_dir = run_dir
        self._loader = loader
        self._state = state

    def load(self, target: str, clock: RequestClock, field: str = "TargetModel") -> str:
        """Return the name of the model for a target, loaded if it was not; ``field`` is what the caller calls it.

        Raises BadRequest for a target outside of the models directory, ModelNotFound, and as ModelLoader.load.
        """
        name = model_name(target)
        if name not in self._state.all():
            source = Source(str(self._folder(target, name, field)), field, target)
            with suppress(AlreadyLoaded):  # by another request, a moment ago
                self._loader.load(name, source, clock)
        return name

    def _folder(self, target: str, name: str, field: str) -> Path:
        path = (self._root / target).resolve()
        if not path.is_relative_to(self._root.resolve()):
            raise BadRequest(f"{field}: expected a path in the models directory, got {target[:200]!r}")
        if path.is_file() and target.endswith(ARCHIVE_ENDINGS):
            return self._unpack(path, name, field)
        if not path.is_dir():
            raise ModelNotFound(f"{field}: there is no model {target[:200]!r}")
        return path

    def _unpack(self, archive: Path, name: str, field: str) -> Path:
        """Unpack an archive where the loader may find it; members that leave their folder are refused."""
        folder = self._run_dir / "models" / f"{name}{UNPACKED}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            with tarfile.open(archive, "r:gz") as members:
                members.extractall(folder, filter="data")
        except (tarfile.TarError, OSError, EOFError) as error:
            raise BadRequest(f"{field}: the archive cannot be unpacked: {type(error).__name__}") from None
        return folder


def model_name(target: str) -> str:
    """Return the name that a target's model has here: its own, where that can be one.

    Else what cannot be in a name is replaced, and a hash tells ``a/b`` from ``a-b``.
    """
    whole = target.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
    name = re.sub(r"[^A-Za-z0-9._-]", "-", whole)
    return name if name == whole else f"{name}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
