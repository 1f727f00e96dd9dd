"""A package, so that its browser ends with it: Playwright runs an event loop of its own on the tests' thread, beside which no other can run."""
