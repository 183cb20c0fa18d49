"""The Open Inference Protocol over HTTP: routes in each worker."""
