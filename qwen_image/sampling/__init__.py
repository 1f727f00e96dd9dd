"""The denoising loop and its schedule; no torch, no Triton."""
