"""The diffusion transformer: a batch of rows advanced by their next sigmas."""
