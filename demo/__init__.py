"""A small Qwen-Image trained from scratch: its pictures, its training, its checker and its checkpoint."""
