"""SageMaker's routes."""

STREAM_TYPE = "application/vnd.amazon.eventstream"
STREAM_ACCEPT = "X-Amzn-SageMaker-Accept"
"""The content type inside the events; Accept itself refers to the stream."""
STREAM_CONTENT_TYPE = "X-Amzn-SageMaker-Content-Type"
