"""Requests: bodies read and checked, up to the `ImageRequest` that Triton gets."""
