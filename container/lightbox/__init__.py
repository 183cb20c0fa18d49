"""The sidecar: takes an image over HTTP, prepares it, asks the model server, answers."""
