"""Coverage-guided fuzzing of all code that reads a caller's bytes."""
