"""The transformer on an NVIDIA GPU: PyTorch's matrix products, own kernels between them, a step as one graph."""
