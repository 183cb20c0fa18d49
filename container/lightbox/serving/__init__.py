"""What the processes that serve callers begin with: settings of all parts, the services of a worker, the app."""
