"""A checkpoint to ONNX files, to engines, to a rendered model repository."""
