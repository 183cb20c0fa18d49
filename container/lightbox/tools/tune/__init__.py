"""``serve.sh tune``: finds the best settings for a model on this machine."""
