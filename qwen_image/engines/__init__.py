"""What compiled engines are built for, and how a built one is recognised: shared by `build/` and the server."""
