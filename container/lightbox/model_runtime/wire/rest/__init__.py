"""JSON requests to named ndarrays, for TensorFlow Serving's REST API and for Lightbox's content types.

``json_document`` parses, ``number_lists`` finds the long lists and has C read them, ``json_inputs`` reads all inputs of
predict and ``examples`` those of classify and regress.
"""
