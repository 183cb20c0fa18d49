"""The sample models: builders, one module each, and what turns a network into a SavedModel.

    catalogue      the models by name
    efficientnet_lite0  ImageNet classifier, 224x224, 1000 classes, trained and labelled
    mobilenet_v2   ImageNet classifier, 224x224, 1000 classes
    digits         handwritten digits, 8x8, trained here in seconds; its train/held-out split
    efficientdet_d1, detections, published   the detector: network, its eight outputs, the real archive
    onnx_file      writes a network as an ONNX file, without TensorFlow
    torch_file     reads the tensors of a PyTorch checkpoint
    image_model    the currency between them: a network on prepared pixels
    input_forms    prepared tensor, raw pixels or encoded bytes in front of a network
    saved_model    writes a version directory and code/lightbox.json
    layout         that folder: versions, settings, what an export may not harm
    staging        whole or not at all, one process at a time
    weights        seeded random weights; the bounded look for weights on the internet

Only functions import TensorFlow, never the modules: finding out that nothing is to be done must be quick.
"""
