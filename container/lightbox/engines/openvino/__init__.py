"""OpenVINO, where its answers are TensorFlow's: a gate, a comparison, and guards in the graph."""
