"""Clients of the model server: one interface, implementations for REST, gRPC and a local socket."""
