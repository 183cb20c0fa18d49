"""nginx: its installation, configuration, sockets, log, admission, refusals, and TLS."""
