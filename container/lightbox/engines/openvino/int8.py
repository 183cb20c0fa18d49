"""INT8 models: quantized from a SavedModel by ``scripts/quantize_model.py``, and kept in the version's folder.

``assets.extra/lightbox_int8/<signature>.xml`` and ``.bin`` are OpenVINO's files, ``.json`` says what they were made of.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lightbox.tfs_wire.status import invalid

FOLDER = Path("assets.extra") / "lightbox_int8"

_FORMAT = 1
_NAME_BYTES = 200


@dataclass(frozen=True)
class Quantized:
    """The INT8 model of one signature."""

    path: Path
    """OpenVINO's file."""
    model: str
    """The hash of the SavedModel that it was made of: ``verdicts.digest``."""
    summary: str
    """How its answers compare with those in f32, in a sentence."""

    @classmethod
    def place(cls, folder: Path, signature: str) -> Path:
        """Return where a signature's file belongs in a version's folder."""
        return folder / FOLDER / f"{quote(signature, safe=' ')[:_NAME_BYTES]}.xml"

    def write(self) -> None:
        """Write what the model was made of beside it. Raises OSError."""
        content = {"format": _FORMAT, "model": self.model, "summary": self.summary}
        self.path.with_suffix(".json").write_text(json.dumps(content, indent=2) + "\n")


def quantized(folder: str, signature: str, model: str) -> Quantized | None:
    """Return the INT8 model of a signature, None if there is none; raise INVALID_ARGUMENT for one of another model."""
    path = Quantized.place(Path(folder), signature)
    if not path.exists():
        return None
    facts = path.with_suffix(".json")
    try:
        content = json.loads(facts.read_bytes())
        if content["format"] != _FORMAT:
            raise ValueError(f"format {content['format']!r}, expected {_FORMAT}")
        found = Quantized(path, str(content["model"]), str(content["summary"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise invalid(f"{facts} cannot be read: {error!r}; make it again with scripts/quantize_model.py") from None
    if found.model != model:
        raise invalid(
            f"{path} was made of another SavedModel than the one in {folder}: "
            "make it again with scripts/quantize_model.py, or remove it"
        )
    return found
