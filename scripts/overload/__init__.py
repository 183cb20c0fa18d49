"""More load than can be served: what is answered all the same, how fast, and how soon all is well again."""
