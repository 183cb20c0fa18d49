"""The machine: cores, memory, temporary storage, environment variables, locks between processes."""
