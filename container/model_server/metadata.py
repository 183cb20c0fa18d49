"""What a model says about its signatures."""

from __future__ import annotations

from collections.abc import Sequence

from lightbox.engines.base import Runner
from tfs_wire.messages import get_model_metadata_pb2
from tfs_wire.status import invalid

SIGNATURE_DEF = "signature_def"


def signature_map(session: Runner) -> get_model_metadata_pb2.SignatureDefMap:
    """Return every signature of the model, the initialisation op included."""
    found = get_model_metadata_pb2.SignatureDefMap()
    for name, signature in session.signatures.items():
        found.signature_def[name].CopyFrom(signature)
    return found


def check_fields(fields: Sequence[str]) -> None:
    """Raise INVALID_ARGUMENT unless "signature_def", the only metadata there is, is asked for."""
    if not fields:
        raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
    for field in fields:
        if field != SIGNATURE_DEF:
            raise invalid(f"Metadata field {field} is not supported")
