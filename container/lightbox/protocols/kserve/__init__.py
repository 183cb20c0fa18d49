"""The Open Inference Protocol (KServe v2): what its REST and its gRPC form share."""
