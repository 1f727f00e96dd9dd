"""Latents to pixels and back."""
