"""The way of a model onto SageMaker; ``lightbox deploy`` is its command line.

requests.py makes the requests (pure functions), aws.py sends them, the other modules are the steps.
"""
