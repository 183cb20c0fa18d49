"""Shared by ``tune``, benchmark, soak, overload, fuzzer and tests: servers to start, requests, tables, memory."""
