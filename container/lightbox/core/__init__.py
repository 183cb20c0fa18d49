"""What every request passes, whatever its protocol. Read it first: request, pipeline, http, edge, app."""
