"""The settings that the model server gets as they are: its threads, its part of the GPU, its batches."""

from __future__ import annotations

from pydantic import Field

from lightbox.concurrency import available_cores
from lightbox.settings_base import NO_LIMIT, TimeSettings


class ModelServerSettings(TimeSettings):
    """The third part of ``settings.Settings``."""

    inter_op_parallelism: int = Field(0, ge=0, validation_alias="SAGEMAKER_TFS_INTER_OP_PARALLELISM")
    """Operations that the model server runs at once. 0 lets it choose."""

    intra_op_parallelism: int = Field(0, ge=0, validation_alias="SAGEMAKER_TFS_INTRA_OP_PARALLELISM")
    """Threads for one operation of the model server. Unset, a start chooses: one where a call of the model is short or
    there is one core, else one for each core; `serve.sh check` tells which and why. 0 leaves it to TensorFlow."""

    gpu_memory_margin: float = Field(0.2, ge=0, lt=1, validation_alias="SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN")
    """Share of the GPU's memory that stays free when several model servers divide it."""

    enable_batching: bool = Field(False, validation_alias="SAGEMAKER_TFS_ENABLE_BATCHING")
    """Let the model server combine concurrent requests into batches."""

    max_batch_size: int = Field(8, ge=1, validation_alias="SAGEMAKER_TFS_MAX_BATCH_SIZE")
    """Limit for the number of instances in one batch."""

    batch_timeout_micros: int = Field(1000, ge=0, validation_alias="SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS")
    """Microseconds that a batch waits for more requests."""

    num_batch_threads: int = Field(
        default_factory=available_cores, ge=1, validation_alias="SAGEMAKER_TFS_NUM_BATCH_THREADS"
    )
    """Batches that run at once."""

    max_enqueued_batches: int = Field(
        default_factory=lambda given: NO_LIMIT if given.get("batch") else available_cores(),
        ge=1,
        validation_alias="SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES",
    )
    """Batches that may wait for a thread. Over it the model server refuses requests."""
