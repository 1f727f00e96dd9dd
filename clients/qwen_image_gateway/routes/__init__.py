"""The gateway's routes."""
