"""Coverage-guided fuzzing of everything that reads a caller's bytes."""
