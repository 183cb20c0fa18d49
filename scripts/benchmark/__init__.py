"""What Lightbox costs, measured beside others, in a way that anyone can repeat: `make bench`.

    scenarios/   what is compared: servers, variants, loads (declarations, no mechanics)
    servers/     what is measured: a Lightbox stack, other servers in rivals/, and the bytes on their inner hops
    clients/     who measures: one light process per variant (raw sockets, boto3, the floor)
    runner.py    interleaves the rounds of the variants and reads the processes' CPU time and memory
    pages/       the results as Markdown and plots

The floor of a request is what one process needs to decode and resize the image and make one direct gRPC
Predict call with the prepared tensor to the same model server. It is measured in the same rounds.
"""
