"""What ``lightbox predict`` is made of.

senders       one image sent once: over HTTP, boto3 or the Open Inference Protocol
retries       one image sent until it is answered or given up
concurrency   how many images may be in progress
journal       what is known of each image, safe against a kill
tables        the journal as CSV or Parquet
run           a folder from start to end
"""
