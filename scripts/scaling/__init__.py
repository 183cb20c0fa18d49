"""Which signal should machines be added by? A replay of load against a model of a machine; no cluster is needed."""
