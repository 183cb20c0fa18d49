"""What ``tune``, benchmark, soak, overload, fuzzer and tests share: servers to start, requests, tables, memory."""
