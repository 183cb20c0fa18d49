"""Faults, dear requests and overload: nothing that was accepted may be lost, and all is well again soon."""
