"""Middleware around every route: the request log, access, and the limit of concurrent requests."""
