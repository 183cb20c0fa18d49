"""Loading and unloading models while serving, as SageMaker's multi-model endpoints ask for it.

https://docs.aws.amazon.com/sagemaker/latest/dg/mms-container-apis.html
"""
