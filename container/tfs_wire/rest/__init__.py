"""TensorFlow Serving's REST bodies: JSON <-> named ndarrays, with its number formats and error texts.

``request.read_predict`` and ``response.write_predict`` are the two ends; ``examples`` reads the bodies
of classify and regress; ``rapidjson`` finds the exact text for what is malformed.
"""
