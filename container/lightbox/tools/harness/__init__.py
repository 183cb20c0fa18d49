"""Shared by ``tune``, benchmark, faults, fuzzer and tests: servers to start, requests, tables, memory."""
