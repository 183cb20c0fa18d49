"""Shared by ``try``, benchmark, faults, fuzzer and tests: servers to start, requests, tables, memory."""
