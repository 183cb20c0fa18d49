"""SageMaker's routes."""
