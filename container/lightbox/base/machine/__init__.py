"""The machine: GPUs, memory, temporary storage, environment variables, locks between processes."""
