"""`python -m qwen_image_client`, the same as the command `qwen-image`."""

import sys

from qwen_image_client.cli import main

sys.exit(main())
