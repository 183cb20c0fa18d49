"""TensorFlow Serving's REST requests: JSON -> named ndarrays, with its error texts.

``request.read_predict`` reads the body of predict, ``examples`` those of classify and regress. ``document`` parses.
"""
