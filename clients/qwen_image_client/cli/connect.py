"""The commands that ask something of the server other than images."""

from qwen_image_client.cli.arguments import Arguments
from qwen_image_client.cli.console import answer, say
from qwen_image_client.errors import InvalidRequest


def cancel(arguments: Arguments) -> int:
    """Ends a request; its images, counted, go to stdout."""
    if not arguments.request_id:
        raise InvalidRequest("REQUEST_ID is empty")
    with arguments.client() as client:
        num_images = client.cancel(arguments.request_id)
    if num_images == 0:
        say("the server knows no such request; it will be ended if it still arrives")
    answer(num_images)
    return 0


def ready(arguments: Arguments) -> int:
    """0 if the server is ready, 1 if it isn't."""
    with arguments.client() as client:
        if arguments.wait is not None:
            client.wait_until_ready(arguments.wait)
        is_ready = client.is_ready()
    say(f"{arguments.url} is {'' if is_ready else 'not '}ready")
    return 0 if is_ready else 1
