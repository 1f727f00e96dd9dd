"""Qwen-Image served by Triton: the importable core."""
