"""The module that OpenVINO imports beside the class."""

backend_ga4 = None
