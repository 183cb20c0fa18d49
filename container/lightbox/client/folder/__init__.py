"""The parts of ``lightbox predict``.

senders       one image sent once: over HTTP, boto3 or the Open Inference Protocol
retries       one image sent until it is answered or failed for good
concurrency   how many images may be in progress
journal       the result of each image, safe against a kill
tables        the journal as CSV or Parquet
run           a folder from start to end
"""
