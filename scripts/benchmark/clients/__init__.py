"""Who measures: each variant's client runs in a process of its own, so that it never waits for another's lock."""
