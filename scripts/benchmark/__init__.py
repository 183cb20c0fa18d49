"""What Lightbox costs, measured beside others, in a way that anyone can repeat: `make bench`.

scenarios/   the comparisons: servers, variants, loads (declarations, no mechanics)
servers.py   the measured servers: a Lightbox stack, and other servers, whose scripts are in rivals/
clients/     the measuring clients: one process per variant (HTTP, gRPC, boto3)
bound.py     the same work in one process, by which a variant's cost is divided
runner.py    interleaves the rounds of the variants and reads the processes' CPU time and memory
pages/       the results as Markdown and pictures
"""
