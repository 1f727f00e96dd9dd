"""The command `qwen-image`: file paths go to stdout, messages for people to stderr.

Exit codes: 0 done; 1 the server failed or isn't there; 2 the command or a value is wrong, or a file can't be used;
130 interrupted.
"""

from collections.abc import Callable, Sequence

from qwen_image_client import InvalidRequest, QwenImageClientError, RecipeError
from qwen_image_client.cli.arguments import Arguments, parse
from qwen_image_client.cli.commands import cancel, check_ready, generate, print_message

_COMMANDS: dict[str, Callable[[Arguments], int]] = {
    "generate": generate,
    "edit": generate,
    "cancel": cancel,
    "ready": check_ready,
}
SERVER_FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    arguments = parse(argv)
    try:
        return _COMMANDS[arguments.command](arguments)
    except KeyboardInterrupt as interrupt:
        print_message("interrupted", *_notes(interrupt))
        return INTERRUPTED
    except (InvalidRequest, RecipeError, OSError) as error:
        print_message(f"error: {error}")
        return WRONG_USAGE
    except QwenImageClientError as error:
        print_message(f"error: {error}", *_notes(error))
        return SERVER_FAILED


def _notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", []))
