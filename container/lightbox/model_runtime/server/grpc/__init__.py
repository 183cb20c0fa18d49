"""The embedded server's gRPC services."""
