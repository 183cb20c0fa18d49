"""The start of the processes that serve callers: settings of all parts, the services of a worker, the app."""
