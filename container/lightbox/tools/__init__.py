"""Commands around the serving code: they load, call, measure, deploy and make models."""
