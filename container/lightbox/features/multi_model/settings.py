"""The variables of multi-model mode."""

from __future__ import annotations

from pydantic import BaseModel, Field

from lightbox.core.settings_types import PART


class MultiModelSettings(BaseModel):
    """The variables of multi-model mode."""

    model_config = PART

    multi_model: bool = Field(False, validation_alias="SAGEMAKER_MULTI_MODEL")
    """Multi-model mode: start without models, and load, list and unload them with requests to `/models`."""

    max_models: int = Field(1000, ge=1, le=100_000, validation_alias="LIGHTBOX_MAX_MODELS")
    """Limit for the number of models that are loaded in multi-model mode. Over it a load gets 507."""

    max_archive_mb: int = Field(4096, ge=1, validation_alias="LIGHTBOX_MAX_ARCHIVE_MB")
    """Limit in MiB for the unpacked size of a model's archive in multi-model mode. Over it a load gets 413. The same
    holds, whatever is set here, for an archive that unpacks to more than 64 MiB and more than 100 times its own
    size."""
