"""The ground that every other package may import: errors, settings, logs, metrics, the machine."""
