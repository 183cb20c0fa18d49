"""``serve.sh tune``: tries settings on the user's own model and machine and says which ones help."""
