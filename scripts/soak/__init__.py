"""Tests under faults, memory-heavy requests and overload: no accepted request is lost, and recovery is quick."""
