"""SageMaker's routes."""

STREAM_TYPE = "application/vnd.amazon.eventstream"
STREAM_ACCEPT = "X-Amzn-SageMaker-Accept"
"""Content type of the payloads inside the events; Accept refers to the stream itself."""
STREAM_CONTENT_TYPE = "X-Amzn-SageMaker-Content-Type"
