"""The Open Inference Protocol's gRPC form: the server, its services, and what every call gets."""
