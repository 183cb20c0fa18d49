"""The Open Inference Protocol over gRPC: a process of its own behind nginx."""
