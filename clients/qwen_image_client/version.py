"""The version of this project, which `--version` prints. pyproject.toml has it too, and a test compares them."""

VERSION = "0.1.0"
