"""Settings of the tests that hypothesis runs."""

import hypothesis

# How long an example takes says how busy the machine is; what must be quick is measured in turns.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("patient")
