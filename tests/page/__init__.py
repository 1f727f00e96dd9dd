"""A package, so that its browser ends with it: Playwright's event loop lets no other run on the tests' thread."""
