"""Everything that knows of Triton: tensors in and out, errors to status codes, metrics, starting a server."""
