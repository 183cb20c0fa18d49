"""What this machine gives: cores, temporary storage, environment variables, locks between processes."""
