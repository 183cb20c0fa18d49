"""INT8 models: made from a model by ``lightbox optimize``, and stored in the version's folder.

``assets.extra/lightbox_int8/<signature>.xml`` and ``.bin`` are OpenVINO's files, ``.json`` describes their origin.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lightbox.model_runtime.wire.status import invalid, unreadable

FOLDER = Path("assets.extra") / "lightbox_int8"

_FORMAT = 1
_NAME_BYTES = 200


@dataclass(frozen=True)
class Quantized:
    """The INT8 model of one signature."""

    path: Path
    """OpenVINO's file."""
    model: str
    """The hash of the model from which it was made: ``verdicts.digest``."""
    summary: str
    """The comparison of its results with f32, in a sentence."""

    @classmethod
    def place(cls, folder: Path, signature: str) -> Path:
        """Return the path of a signature's file in a version's folder."""
        return folder / FOLDER / f"{quote(signature, safe=' ')[:_NAME_BYTES]}.xml"

    def write(self) -> None:
        """Write the description of its origin. Raises OSError."""
        content = {"format": _FORMAT, "model": self.model, "summary": self.summary}
        self.path.with_suffix(".json").write_text(json.dumps(content, indent=2) + "\n")


def quantized(folder: Path, signature: str, model: str) -> Quantized | None:
    """Return the INT8 model of a signature, None if absent; raise INVALID_ARGUMENT if it is of another model."""
    path = Quantized.place(folder, signature)
    if not path.exists():
        return None
    facts = path.with_suffix(".json")
    try:
        content = json.loads(facts.read_bytes())
        if content["format"] != _FORMAT:
            raise ValueError(f"format {content['format']!r}, expected {_FORMAT}")
        result = Quantized(path, str(content["model"]), str(content["summary"]))
    except OSError as error:
        raise unreadable(str(facts), error) from None
    except (ValueError, KeyError, TypeError) as error:
        raise invalid(f"{facts} cannot be read: {error!r}; make it again with lightbox optimize") from None
    if result.model != model:
        raise invalid(
            f"{path} was made of another model than the one in {folder}: "
            "make it again with lightbox optimize, or remove it"
        )
    return result
