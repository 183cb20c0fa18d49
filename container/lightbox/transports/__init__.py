"""How Lightbox speaks to the model server: one protocol, a REST and a gRPC implementation, a fake."""
