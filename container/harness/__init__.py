"""What ``tune``, the benchmark, the soak, the overload and the tests share: servers to start, requests, tables."""
