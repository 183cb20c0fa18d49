"""nginx: its configuration, its log, its refusals, and TLS."""
