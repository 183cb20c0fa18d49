"""The way of a model onto SageMaker; ``lightbox deploy`` is its command line.

requests.py says what is asked for (pure functions), aws.py asks, the other modules are the steps.
"""
