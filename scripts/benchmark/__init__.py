"""Benchmarks Lightbox against other servers, reproducibly: `make bench`.

scenarios/   the comparisons: servers, variants, loads (declarations, no mechanics)
servers.py   the measured servers: a Lightbox stack, and other servers, whose scripts are in rivals/
clients/     the measuring clients: one process per variant (HTTP, gRPC, boto3)
bound.py     the same work in one process: the baseline of each variant's CPU time
runner.py    interleaves the rounds of the variants and reads CPU time and memory of the processes
tables.py    the results as Markdown
"""
