"""A long run of good and hostile traffic while processes are killed: nothing that was accepted may be lost."""
