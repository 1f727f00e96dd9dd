"""What one request asks for, what it may ask for, and its life on the server."""
