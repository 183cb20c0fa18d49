"""The path of every request, whatever its protocol. Read it first: request, pipeline, http, edge, app."""
