"""``lightbox deploy``: models on SageMaker, as stacks of CloudFormation made from the templates here."""
